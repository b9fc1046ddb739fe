package serving

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func failing(name, why string) Check {
	return Check{Name: name, Ready: func(context.Context) error { return errors.New(why) }}
}

var fine = Check{Name: "fine", Ready: func(context.Context) error { return nil }}

// errorIs wants an error that contains each of texts, or none if there are none.
func errorIs(t *testing.T, err error, texts ...string) {
	t.Helper()
	if len(texts) == 0 && err != nil {
		t.Errorf("got the error %q, want none", err)
	}
	for _, text := range texts {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("got the error %v, want %q in it", err, text)
		}
	}
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stopping, stop := context.WithCancel(t.Context())
		hung := Check{Name: "hung", Ready: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
		errorIs(t, probe(t, readiness(stopping)))
		errorIs(t, probe(t, readiness(stopping, fine, fine)))
		errorIs(t, probe(t, readiness(stopping, failing("policies", "2 of 7 loaded"), fine, failing("cache", "not synced"))),
			"policies: 2 of 7 loaded", "cache: not synced")
		began := time.Now()
		errorIs(t, probe(t, readiness(stopping, hung, hung, hung)), "hung: context deadline exceeded")
		if took := time.Since(began); took != checkTimeout {
			t.Errorf("three checks that hang: answered after %s, want %s", took, checkTimeout)
		}
		stop()
		errorIs(t, probe(t, readiness(stopping, fine)), "stopping")
	})
}

// A server is ready only while its listener presents the certificate in use.
func TestOwnHandshake(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts, and nobody answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	for name, tt := range map[string]struct {
		dir, presented func(t *testing.T) pair
		address        net.Listener // nil: one that answers
		want           []string
	}{
		"expired":        {dir: func(t *testing.T) pair { return validFor(t, time.Now().Add(-time.Hour), time.Now().Add(-time.Minute)) }, want: []string{"expired at"}},
		"stale":          {dir: newPair, presented: newPair, want: []string{"the listener presents the certificate with serial"}},
		"current":        {dir: newPair},
		"nobody listens": {dir: newPair, address: gone, want: []string{"refused"}},
		"nobody answers": {dir: newPair, address: silent, want: []string{"deadline exceeded"}},
		"none":           {want: []string{"certificate in"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if tt.dir != nil {
				tt.dir(t).files(t, dir)
			}
			c := newCertificates(dir, slog.New(slog.DiscardHandler))
			config := &tls.Config{GetCertificate: c.getCertificate}
			if tt.presented != nil {
				config = tt.presented(t).config(t)
			}
			ctx, address := t.Context(), listenTLS(t, config)
			if tt.address != nil {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, 500*time.Millisecond)
				defer cancel()
				address = tt.address.Addr().String()
			}
			errorIs(t, ownHandshake(address, c).Ready(ctx), tt.want...)
		})
	}
}

// listenTLS completes handshakes until the test ends.
func listenTLS(t *testing.T, config *tls.Config) (address string) {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.(*tls.Conn).HandshakeContext(t.Context()) // some tests want it to fail
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-ended })
	return l.Addr().String()
}

func (p pair) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(p.leaf)
	return pool
}

func (p pair) config(t *testing.T) *tls.Config {
	t.Helper()
	c, err := tls.X509KeyPair(p.crt, p.key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{c}}
}

// A server waits for its certificate and for what WaitFor names, and presents a new
// certificate as soon as it is there.
func TestReady(t *testing.T) {
	t.Parallel()
	policies := errors.New("2 of 7 loaded")
	r := start(t, Config{
		Handler: http.NotFoundHandler(),
		WaitFor: []Check{{Name: "policies", Ready: func(context.Context) error { return policies }}},
	})
	errorIs(t, probe(t, r.Ready), "policies: 2 of 7 loaded")
	policies = nil
	passes(t, r.Ready)
	first := r.pair
	for range 3 {
		next := newPair(t)
		next.secret(t, r.dir)
		r.certificates.forgetLook()
		passes(t, r.Ready)
		if got := get(next.client(t, true), r.url()); !strings.Contains(got, "404") {
			t.Errorf("a client that trusts the new certificate: got %q", got)
		}
		if got := get(first.client(t, true), r.url()); !strings.Contains(got, "certificate") {
			t.Errorf("a client that trusts the old certificate: got %q", got)
		}
	}
	pair{crt: first.crt, key: newPair(t).key}.files(t, r.dir)
	r.certificates.forgetLook()
	passes(t, r.Ready)
	passes(t, r.Live)
}

// Before there is a certificate a server is alive and not ready, and needs no restart then.
func TestReadyWithoutCertificate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	logs := newLogged()
	s, err := New(Config{Address: "127.0.0.1:0", TLSDir: dir, Handler: http.NotFoundHandler(), Log: logs.log()})
	if err != nil {
		t.Fatal(err)
	}
	errorIs(t, probe(t, s.Ready), "does not listen yet")
	errorIs(t, probe(t, s.Live))
	s.after = func(time.Duration) <-chan time.Time { return time.After(0) }
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- s.Run(ctx) }()
	logs.wait(t, "msg=serving", 1)
	errorIs(t, probe(t, s.Ready), "certificate in")
	errorIs(t, probe(t, s.Live))
	newPair(t).secret(t, dir)
	s.certificates.forgetLook()
	errorIs(t, probe(t, s.Ready))
	errorIs(t, probe(t, s.Live))
	cancel()
	errorIs(t, within(t, result))
}

// A listener that answers no handshake may need a restart, unless it is full or stops.
func TestLive(t *testing.T) {
	t.Parallel()
	hung := make(chan struct{})
	r := start(t, Config{Handler: http.NotFoundHandler(), TLS: &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		<-hung
		return nil, nil
	}}})
	live := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "/livez", nil)
		if err != nil {
			t.Fatal(err)
		}
		return r.Live(request)
	}
	errorIs(t, live(), "own listener")
	bound := func(n int) {
		r.listener.Load().mu.Lock()
		defer r.listener.Load().mu.Unlock()
		r.listener.Load().max = n
	}
	bound(0)
	errorIs(t, live())
	bound(100)
	r.cancel()
	r.logs.wait(t, "stopping", 1)
	errorIs(t, live())
	close(hung)
}

// An API server that shows a certificate of its own is let in, and the server's own
// handshake does not need one.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	apiserver := newPair(t)
	r := start(t, Config{
		Handler: http.NotFoundHandler(),
		TLS:     &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: apiserver.pool(), Certificates: newPair(t).config(t).Certificates},
	})
	passes(t, r.Ready)
	client := r.pair.client(t, false)
	if got := get(client, r.url()); !strings.Contains(got, "certificate required") {
		t.Errorf("without a certificate: got %q", got)
	}
	client.Transport.(*http.Transport).TLSClientConfig.Certificates = apiserver.config(t).Certificates
	if got := get(client, r.url()); !strings.Contains(got, "404") {
		t.Errorf("with a certificate: got %q", got)
	}
}
