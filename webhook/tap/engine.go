package tap

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const (
	// dialTimeout bounds one connection with its handshake. The engine is in the same pod:
	// it answers within milliseconds, or after a start.
	dialTimeout = 5 * time.Second
	// maxPEMBytes bounds the CA file: that of a whole system has 250 KiB.
	maxPEMBytes = 1 << 20
)

// engine is where the engine is, and by what it is known.
type engine struct {
	url        *url.URL
	address    string // host:port
	serverName string // empty: the host, or names on a loopback address
	names      func() []string
	ca         *authorities // nil: those of the system
	health     *health
}

func newEngine(c Config, log *slog.Logger) (*engine, error) {
	u, err := parseUpstream(c.Upstream)
	if err != nil {
		return nil, fmt.Errorf("upstream %w", err)
	}
	e := &engine{url: u, serverName: c.ServerName, names: c.Names, health: &health{log: log}}
	e.address = u.Host
	if u.Port() == "" {
		e.address = net.JoinHostPort(u.Hostname(), u.Scheme)
	}
	if c.CAFile == "" {
		return e, nil
	}
	if u.Scheme != "https" {
		return nil, errors.New("upstream CA: must not be set for http://: the engine shows no certificate")
	}
	e.ca = &authorities{file: c.CAFile, log: log, pool: x509.NewCertPool()}
	if err := e.ca.read(); err != nil && !e.ca.mayCome(err) {
		return nil, fmt.Errorf("upstream CA %s: %w", c.CAFile, err)
	}
	return e, nil
}

// CheckUpstream says what is wrong with Config.Upstream.
func CheckUpstream(text string) error {
	_, err := parseUpstream(text)
	return err
}

func parseUpstream(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case text == "":
		return nil, errors.New("is required: where the engine listens, such as https://127.0.0.1:8444")
	case err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("must be absolute, such as https://127.0.0.1:8444")
	case u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("must have only a host and a port, such as https://127.0.0.1:8444: requests keep their own paths")
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return nil, errors.New("must be https://: without TLS the engine must be on a loopback address, such as http://127.0.0.1:8181")
	}
	return u, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// dial connects to the engine, and makes sure that it is the engine.
func (e *engine) dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", e.address)
	if err != nil || e.url.Scheme == "http" {
		return nc, err
	}
	tc := tls.Client(nc, &tls.Config{
		MinVersion:         tls.VersionTLS12,
		NextProtos:         []string{"http/1.1"},
		ServerName:         e.indication(),
		InsecureSkipVerify: true, // verify does it: one of several names will do
		VerifyConnection:   e.verify,
		// A piece is a record from the first one on: it is not read by a browser.
		DynamicRecordSizingDisabled: true,
	})
	if err := tc.HandshakeContext(ctx); err != nil {
		nc.Close()
		return nil, fmt.Errorf("TLS handshake with the engine at %s: %w", e.address, err)
	}
	return tc, nil
}

// candidates are the names of which the engine's certificate must have one.
func (e *engine) candidates() []string {
	host := e.url.Hostname()
	switch {
	case e.serverName != "":
		return []string{e.serverName}
	case e.names == nil || !loopback(host):
		return []string{host}
	}
	return append([]string{host}, e.names()...)
}

// indication is the name that the engine is told we want: the first that is no address.
func (e *engine) indication() string {
	for _, name := range e.candidates() {
		if net.ParseIP(name) == nil {
			return name
		}
	}
	return e.url.Hostname()
}

// verify verifies the certificate of the engine.
func (e *engine) verify(state tls.ConnectionState) error {
	cert := state.PeerCertificates[0]
	options := x509.VerifyOptions{Intermediates: x509.NewCertPool()}
	for _, other := range state.PeerCertificates[1:] {
		options.Intermediates.AddCert(other)
	}
	hint := "set --upstream-ca to the CA that issued it"
	if e.ca != nil {
		options.Roots = e.ca.current()
		hint = "write the CA that issued it to " + e.ca.file
	}
	if _, err := cert.Verify(options); err != nil {
		if !errors.As(err, new(x509.UnknownAuthorityError)) {
			hint = "renew it"
		}
		return fmt.Errorf("the engine's certificate (%s) does not verify: %w: %s", describe(cert), err, hint)
	}
	names := e.candidates()
	for _, name := range names {
		if cert.VerifyHostname(name) == nil {
			return nil
		}
	}
	return fmt.Errorf("the engine's certificate (%s) has none of the names %q: in a file of kind Tap, set upstream.serverName to a name of the certificate", describe(cert), names)
}

// describe says whose certificate cert is.
func describe(cert *x509.Certificate) string {
	names := append([]string{}, cert.DNSNames...)
	for _, ip := range cert.IPAddresses {
		names = append(names, ip.String())
	}
	return fmt.Sprintf("subject %q, names %q, issued by %q, valid until %s", cert.Subject, names, cert.Issuer, cert.NotAfter.UTC().Format(time.RFC3339))
}

// authorities are the CAs in a file, as they were last read.
type authorities struct {
	file string
	log  *slog.Logger

	mu     sync.Mutex
	text   []byte         // of which pool was made; guarded by mu
	pool   *x509.CertPool // not nil, which would stand for the CAs of the system; guarded by mu
	broken string         // why the file could not be read, as logged last; guarded by mu
}

// current returns the CAs in the file, or those it had while it could be read.
func (a *authorities) current() *x509.CertPool {
	why := ""
	if err := a.read(); err != nil {
		why = err.Error()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if why != "" && why != a.broken {
		a.log.Warn("cannot read the engine's CA file: docket keeps the CAs that it read last, if any", "file", a.file, "error", why)
	}
	a.broken = why
	return a.pool
}

// mayCome reports whether the file is missing from a directory that is there: the engine
// itself may have to make it first, in a Secret that is mounted already.
func (a *authorities) mayCome(err error) bool {
	_, missing := os.Stat(filepath.Dir(a.file))
	return errors.Is(err, fs.ErrNotExist) && missing == nil
}

// read takes the CAs in the file. With an error, which does not name the file, those before stay.
func (a *authorities) read() error {
	f, err := os.Open(a.file)
	if err != nil {
		return errors.Unwrap(err)
	}
	defer f.Close() // read only: nothing can be lost
	text, err := io.ReadAll(io.LimitReader(f, maxPEMBytes))
	if err != nil {
		return errors.Unwrap(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(text) > 0 && bytes.Equal(text, a.text) {
		return nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return errors.New("holds no certificate in PEM form")
	}
	a.text, a.pool = text, pool
	return nil
}
