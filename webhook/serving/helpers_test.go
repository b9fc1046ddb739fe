package serving

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
)

// pair is a certificate that vouches for itself, and its key.
type pair struct {
	crt, key []byte
	leaf     *x509.Certificate
}

var serials atomic.Int64

// newPair makes a pair for localhost, valid from an hour ago for an hour from now on.
func newPair(t *testing.T) pair {
	return validFor(t, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
}

func validFor(t *testing.T, from, until time.Time) pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serials.Add(1)), Subject: pkix.Name{CommonName: "webhook"},
		NotBefore: from, NotAfter: until, DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pair{
		crt:  pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
		leaf: leaf,
	}
}

// files writes the pair as two files.
func (p pair) files(t *testing.T, dir string) {
	t.Helper()
	write(t, filepath.Join(dir, "tls.crt"), p.crt)
	write(t, filepath.Join(dir, "tls.key"), p.key)
}

// secret writes the pair as kubelet does: into a new directory, to which it turns the
// link ..data in one step.
func (p pair) secret(t *testing.T, dir string) {
	t.Helper()
	version := filepath.Join(dir, fmt.Sprintf("..2026_%d", serials.Add(1)))
	if err := os.Mkdir(version, 0o700); err != nil {
		t.Fatal(err)
	}
	p.files(t, version)
	link(t, filepath.Base(version), filepath.Join(dir, "..data_tmp"))
	if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tls.crt", "tls.key"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			link(t, filepath.Join("..data", name), filepath.Join(dir, name))
		}
	}
	versions, err := filepath.Glob(filepath.Join(dir, "..2026_*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, old := range versions {
		if old != version {
			if err := os.RemoveAll(old); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, to, path string) {
	t.Helper()
	if err := os.Symlink(to, path); err != nil {
		t.Fatal(err)
	}
}

// logged keeps log lines, and lets a test wait for one.
type logged struct {
	mu    sync.Mutex
	lines []string
	more  chan struct{}
	slog.Handler
}

func newLogged() *logged {
	l := &logged{more: make(chan struct{})}
	l.Handler = slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug})
	return l
}

func (l *logged) log() *slog.Logger { return slog.New(l.Handler) }

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(bytes.TrimSpace(p)))
	close(l.more)
	l.more = make(chan struct{})
	return len(p), nil
}

// with returns the lines that contain text.
func (l *logged) with(text string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// wait returns once there are n lines that contain text.
func (l *logged) wait(t *testing.T, text string, n int) {
	t.Helper()
	deadline := time.After(await.Left(t))
	for {
		l.mu.Lock()
		more := l.more
		l.mu.Unlock()
		if len(l.with(text)) >= n {
			return
		}
		select {
		case <-more:
		case <-deadline:
			t.Fatalf("got the log lines %q, want %d with %q", l.with(""), n, text)
		}
	}
}

// running is a server under test.
type running struct {
	*Server
	logs   *logged
	pair   pair
	dir    string
	cancel context.CancelFunc
	clock  chan time.Time // lets each half of ShutdownDelay pass
	result chan error     // what Run returns
}

// start runs a server with the fields of c, and those that every test has alike.
func start(t *testing.T, c Config) *running {
	t.Helper()
	return startWith(t, newPair(t), c)
}

func startWith(t *testing.T, p pair, c Config) *running {
	t.Helper()
	r := &running{logs: newLogged(), pair: p, dir: t.TempDir(), clock: make(chan time.Time), result: make(chan error, 1)}
	r.pair.secret(t, r.dir)
	c.Address, c.TLSDir, c.Log = "127.0.0.1:0", r.dir, r.logs.log()
	var err error
	if r.Server, err = New(c); err != nil {
		t.Fatal(err)
	}
	r.after = func(time.Duration) <-chan time.Time { return r.clock }
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.result <- r.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		r.http.Close() // for what a test has left
		r.cutOff()
		for {
			select {
			case r.clock <- time.Now():
			case <-ended:
				return
			}
		}
	})
	r.logs.wait(t, "msg=serving", 1)
	return r
}

// half lets half of ShutdownDelay pass.
func (r *running) half(t *testing.T) {
	t.Helper()
	select {
	case r.clock <- time.Now():
	case <-time.After(await.Left(t)):
		t.Fatal("the server does not wait")
	}
}

// client returns one that trusts p and keeps its connections.
func (p pair) client(t *testing.T, http2 bool) *http.Client {
	pool := p.pool()
	var protocols http.Protocols
	protocols.SetHTTP1(!http2)
	protocols.SetHTTP2(http2)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, Protocols: &protocols}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: await.Left(t)}
}

// within returns what comes over c.
func within[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(await.Left(t)):
		t.Fatalf("%T: nothing came", c)
	}
	return v
}

func (r *running) url() string { return "https://" + r.Addr().String() + "/" }

// passes probes until check says yes: on a slow machine one handshake may take longer than
// checkTimeout.
func passes(t *testing.T, check func(*http.Request) error) {
	t.Helper()
	await.Until(t, "the probe to pass", func() bool { return probe(t, check) == nil })
}

// probe asks a check as kubelet does.
func probe(t *testing.T, check func(*http.Request) error) error {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil)
	if err != nil {
		t.Fatal(err)
	}
	return check(r)
}
