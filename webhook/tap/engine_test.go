package tap_test

import (
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
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/webhook/tap"
)

// authority is a CA for tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) authority {
	t.Helper()
	a := authority{}
	der, key := a.sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotAfter: time.Now().Add(time.Hour),
	})
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{cert, key}
}

// sign makes a certificate that a signs, or that signs itself.
func (a authority) sign(t *testing.T, template *x509.Certificate) ([]byte, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore = time.Now().Add(-2 * time.Hour)
	parent, signer := template, key
	if a.cert != nil {
		parent, signer = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	return der, key
}

// issue makes a certificate for names, which ends in life.
func (a authority) issue(t *testing.T, life time.Duration, names ...string) tls.Certificate {
	t.Helper()
	template := &x509.Certificate{Subject: pkix.Name{CommonName: "an engine"}, NotAfter: time.Now().Add(life)}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, key := a.sign(t, template)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func (a authority) write(t *testing.T, file string) {
	t.Helper()
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// newEngine is an engine with a certificate.
func newEngine(t *testing.T, cert tls.Certificate) *httptest.Server {
	t.Helper()
	e := httptest.NewUnstartedServer(http.HandlerFunc(mirror))
	e.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	e.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	e.StartTLS()
	t.Cleanup(e.Close)
	return e
}

// The engine must show a certificate of the CA and for its name. On a loopback address it
// may be for a name of the proxy itself. An error says whose certificate it is, and what to
// do.
func TestEngineIsVerified(t *testing.T) {
	ca, other := newAuthority(t, "engine CA"), newAuthority(t, "other CA")
	const service = "engine.ns.svc"
	for name, test := range map[string]struct {
		cert   tls.Certificate
		server string   // ServerName
		names  []string // of the proxy
		want   string   // in the error; empty: none
	}{
		"address":               {cert: ca.issue(t, time.Hour, "127.0.0.1")},
		"own name":              {cert: ca.issue(t, time.Hour, "x.test", service), names: []string{"y.test", service}},
		"named":                 {cert: ca.issue(t, time.Hour, service), server: service},
		"another than named":    {cert: ca.issue(t, time.Hour, service, "127.0.0.1"), server: "z.test", names: []string{service}, want: `has none of the names ["z.test"]: in a file of kind Tap, set upstream.serverName`},
		"nobody's name":         {cert: ca.issue(t, time.Hour, "x.test"), names: []string{service}, want: `(subject "CN=an engine", names ["x.test"], issued by "CN=engine CA", valid until `},
		"no name of the proxy":  {cert: ca.issue(t, time.Hour, service), want: `has none of the names ["127.0.0.1"]`},
		"another CA":            {cert: other.issue(t, time.Hour, "127.0.0.1"), want: `issued by "CN=other CA"`},
		"another CA, what next": {cert: other.issue(t, time.Hour, "127.0.0.1"), want: `write the CA that issued it to `},
		"expired":               {cert: ca.issue(t, -time.Minute, "127.0.0.1"), want: `certificate has expired`},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, test.cert)
			file := filepath.Join(t.TempDir(), "ca.crt")
			ca.write(t, file)
			config := tap.Config{Upstream: e.URL, CAFile: file, ServerName: test.server}
			if test.names != nil {
				config.Names = func() []string { return test.names }
			}
			proxy, err := tap.New(config)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(proxy.Close)
			err = proxy.Ready(t.Context())
			if test.want == "" && err != nil || test.want != "" && !strings.Contains(fmt.Sprint(err), test.want) {
				t.Errorf("got %v, want %q in it", err, test.want)
			}
			w := httptest.NewRecorder()
			proxy.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
			if want := map[bool]int{true: 200, false: 502}[test.want == ""]; w.Code != want {
				t.Errorf("got %d, want %d", w.Code, want)
			}
		})
	}
}

// A CA that is rotated is in use for the next connection. A file that is broken or gone
// leaves the one before in use, and is logged once.
func TestCARotates(t *testing.T) {
	first, second := newAuthority(t, "first"), newAuthority(t, "second")
	file := filepath.Join(t.TempDir(), "ca.crt")
	first.write(t, file)
	e := newEngine(t, first.issue(t, time.Hour, "127.0.0.1"))
	rotated := newEngine(t, second.issue(t, time.Hour, "127.0.0.1"))
	var log lines
	open := func(e *httptest.Server) *tap.Tap {
		proxy, err := tap.New(tap.Config{Upstream: e.URL, CAFile: file, Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		return proxy
	}
	before, after := open(e), open(rotated)
	if before.Ready(t.Context()) != nil || after.Ready(t.Context()) == nil {
		t.Fatal("got another CA in use, want the first")
	}
	if err := os.WriteFile(file, []byte("half of a"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := before.Ready(t.Context()); err != nil {
			t.Errorf("got %v with a broken file, want the CA before in use", err)
		}
	}
	if text := log.String(); strings.Count(text, "level=WARN") != 1 || !strings.Contains(text, "holds no certificate in PEM form") {
		t.Errorf("got log\n%s\nwant one line about the file", text)
	}
	second.write(t, file)
	if err := after.Ready(t.Context()); err != nil {
		t.Errorf("got %v, want the second CA in use", err)
	}
	if before.Ready(t.Context()) == nil {
		t.Error("got the first CA in use, want the second alone")
	}
}

// An engine may have to make its CA first, after tap has started. Until then tap trusts
// nobody, not even with the CAs of the system.
func TestCAComesLater(t *testing.T) {
	ca := newAuthority(t, "late CA")
	e := newEngine(t, ca.issue(t, time.Hour, "127.0.0.1"))
	system := filepath.Join(t.TempDir(), "system.crt")
	ca.write(t, system)
	t.Setenv("SSL_CERT_FILE", system)
	file := filepath.Join(t.TempDir(), "ca.crt")
	proxy, err := tap.New(tap.Config{Upstream: e.URL, CAFile: file})
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	if err := proxy.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "write the CA that issued it to "+file) {
		t.Errorf("without a CA: got %v, want an engine that nobody trusts, and the file", err)
	}
	ca.write(t, file)
	if err := proxy.Ready(t.Context()); err != nil {
		t.Errorf("got %v, want the CA in use", err)
	}
}

func TestConfig(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.crt")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		config tap.Config
		want   string
	}{
		"nothing":           {tap.Config{}, "upstream is required: where the engine listens, such as https://127.0.0.1:8444"},
		"no scheme":         {tap.Config{Upstream: "127.0.0.1:8444"}, "upstream must be absolute, such as https://127.0.0.1:8444"},
		"scheme":            {tap.Config{Upstream: "unix:///run/x"}, "upstream must be absolute, such as https://127.0.0.1:8444"},
		"path":              {tap.Config{Upstream: "https://h:1/x"}, "upstream must have only a host and a port, such as https://127.0.0.1:8444: requests keep their own paths"},
		"password":          {tap.Config{Upstream: "https://a:b@h"}, "upstream must have only a host and a port, such as https://127.0.0.1:8444: requests keep their own paths"},
		"plain":             {tap.Config{Upstream: "http://engine:80"}, "upstream must be https://: without TLS the engine must be on a loopback address, such as http://127.0.0.1:8181"},
		"CA for plain":      {tap.Config{Upstream: "http://127.0.0.1:80", CAFile: empty}, "upstream CA: must not be set for http://: the engine shows no certificate"},
		"no directory":      {tap.Config{Upstream: "https://h", CAFile: filepath.Join(dir, "no", "ca.crt")}, "upstream CA " + filepath.Join(dir, "no", "ca.crt") + ": no such file or directory"},
		"CA is empty":       {tap.Config{Upstream: "https://h", CAFile: empty}, "upstream CA " + empty + ": holds no certificate in PEM form"},
		"CA is a directory": {tap.Config{Upstream: "https://h", CAFile: dir}, "upstream CA " + dir + ": is a directory"},
		"good":              {tap.Config{Upstream: "https://h/"}, "<nil>"},
		"good and plain":    {tap.Config{Upstream: "http://[::1]:80"}, "<nil>"},
	} {
		if _, err := tap.New(test.config); fmt.Sprint(err) != test.want {
			t.Errorf("%s: got %v, want %s", name, err, test.want)
		}
	}
}
