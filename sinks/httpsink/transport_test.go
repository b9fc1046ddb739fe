package httpsink

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/internal/testcert"
	"github.com/docket-export/docket/sinks"
)

// tlsReceiver is a receiver whose certificate is signed by ca. With mutual it
// demands one in return.
func tlsReceiver(t *testing.T, ca testcert.CA, mutual bool) *receiver {
	return newReceiver(t, func(s *httptest.Server) {
		s.EnableHTTP2 = true
		s.TLS = serverTLS(ca.Issue(t, "127.0.0.1"))
		if mutual {
			s.TLS.ClientAuth, s.TLS.ClientCAs = tls.RequireAndVerifyClientCert, ca.Pool
		}
		s.StartTLS()
	})
}

func serverTLS(p testcert.Pair) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{p.TLS}}
}

// expiredReceiver is a receiver whose certificate is no longer valid.
func expiredReceiver(t *testing.T, ca testcert.CA) *receiver {
	return newReceiver(t, func(s *httptest.Server) {
		s.TLS = serverTLS(ca.IssueExpired(t, "127.0.0.1"))
		s.StartTLS()
	})
}

func TestTLS(t *testing.T) {
	ca, other := testcert.NewCA(t), testcert.NewCA(t)
	pair := ca.Issue(t, "127.0.0.1")
	trust := config.TLS{CAFile: ca.File}
	full := config.TLS{CAFile: ca.File, CertFile: pair.CertFile, KeyFile: pair.KeyFile}
	wrongName := config.TLS{CAFile: ca.File, ServerName: "siem.example.com"}
	for _, test := range []struct {
		name   string
		mutual bool
		tls    config.TLS
		want   string // in the error; empty for success
	}{
		{"trusted", false, trust, ""},
		{"mutual", true, full, ""},
		{"system roots", false, config.TLS{}, "check http.tls.caFile"},
		{"another CA", false, config.TLS{CAFile: other.File}, "check http.tls.caFile"},
		{"another name", false, wrongName, "siem.example.com"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := tlsReceiver(t, ca, test.mutual)
			s := openSink(t, r.URL+"/s3cret-path?ref=s3cret", withTLS(test.tls))
			if test.want != "" {
				wantNoSecret(t, sendFails(t, s, sinks.Misconfigured, test.want))
				return
			}
			if err := s.Send(t.Context(), batch(1, `{"a":1}`)); err != nil {
				t.Fatalf("Send = %v, want nil", err)
			}
			if got := r.lastRequest(t).Proto; got != "HTTP/2.0" {
				t.Errorf("spoke %s, want HTTP/2.0", got)
			}
		})
	}
}

// A server refuses a client certificate, or the lack of one, after the handshake. The reason may be
// lost with the connection; nothing is taken for delivered or for the fault of a record.
func TestClientCertificateRefused(t *testing.T) {
	ca := testcert.NewCA(t)
	foreign := testcert.NewCA(t).Issue(t, "127.0.0.1")
	for name, use := range map[string]config.TLS{
		"none":    {CAFile: ca.File},
		"foreign": {CAFile: ca.File, CertFile: foreign.CertFile, KeyFile: foreign.KeyFile},
	} {
		t.Run(name, func(t *testing.T) {
			s := openSink(t, tlsReceiver(t, ca, true).URL+"/s3cret-path?ref=s3cret", withTLS(use))
			f := sinks.FailureOf(s.Send(t.Context(), batch(1, `{"a":1}`)))
			if f == nil || f.Kind != sinks.Transient && f.Kind != sinks.Misconfigured {
				t.Fatalf("Send = %v, want a failure that keeps the record", f)
			}
			wantNoSecret(t, f)
		})
	}
}

func TestSchemes(t *testing.T) {
	plain := newReceiver(t, (*httptest.Server).Start)
	secure := newReceiver(t, (*httptest.Server).StartTLS)
	t.Run("https to a plain port", func(t *testing.T) {
		sendFails(t, openSink(t, "https://"+plain.Listener.Addr().String()), sinks.Misconfigured, "use http://")
	})
	t.Run("http to a TLS port", func(t *testing.T) {
		sendFails(t, openSink(t, "http://"+secure.Listener.Addr().String()), sinks.Misconfigured, "use https://")
	})
}

func TestChangedCA(t *testing.T) {
	ca, other := testcert.NewCA(t), testcert.NewCA(t)
	r := tlsReceiver(t, ca, false)
	s := openSink(t, r.URL, withTLS(config.TLS{CAFile: other.File}))
	sendFails(t, s, sinks.Misconfigured, "caFile")

	if err := os.Remove(other.File); err != nil {
		t.Fatal(err)
	}
	sendFails(t, s, sinks.Misconfigured, other.File)

	if err := os.Rename(ca.File, other.File); err != nil {
		t.Fatal(err)
	}
	// Two files of one size made within a tick of the clock would look the same.
	if err := os.Chtimes(other.File, time.Now(), time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Send(t.Context(), batch(1, `{"a":1}`)); err != nil {
			t.Fatalf("Send with the right CA in place = %v, want nil", err)
		}
	}
}

func TestProxyRefuses(t *testing.T) {
	proxy := newReceiver(t, (*httptest.Server).Start)
	proxyURL, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxyURL.User = url.UserPassword("docket", "s3cret")
	for _, test := range []struct {
		code int
		want sinks.Kind
	}{{407, sinks.Misconfigured}, {502, sinks.Transient}} {
		for _, target := range []string{"https://siem.example.com/ingest", "http://siem.example.com/ingest"} {
			proxy.setAnswer(status(test.code, ""))
			s := openSink(t, target)
			s.(*sink).wire.transport().Proxy = http.ProxyURL(proxyURL)
			wantNoSecret(t, sendFails(t, s, test.want, "siem.example.com"))
		}
	}
}
