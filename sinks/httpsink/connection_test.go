package httpsink

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/internal/testcert"
	"github.com/docket-export/docket/sinks"
)

// old makes the connections of s as old as they become.
func old(s sinks.Sink) {
	wire := s.(*sink).wire
	aged := *wire.pool.Load()
	aged.until = time.Now()
	wire.pool.Store(&aged)
}

// Connections are not used for ever: the address of a server may have changed. A request that is
// under way on an old one gets its answer.
func TestConnectionsAge(t *testing.T) {
	ca := testcert.NewCA(t)
	for name, r := range map[string]*receiver{
		"HTTP/1.1": newReceiver(t, (*httptest.Server).Start),
		"HTTP/2.0": tlsReceiver(t, ca, false),
	} {
		t.Run(name, func(t *testing.T) {
			change := func(*Config) {}
			if name != "HTTP/1.1" {
				change = withTLS(config.TLS{CAFile: ca.File})
			}
			s := openSink(t, r.URL, change)
			sendWorks(t, s)
			if name != "HTTP/1.1" && s.(*sink).wire.transport().HTTP2.SendPingTimeout != pingAfter {
				t.Error("a connection of HTTP/2 is never asked whether it lives")
			}
			arrived, proceed := make(chan struct{}), make(chan struct{})
			r.setAnswer(func(_ http.ResponseWriter, req *http.Request) {
				close(arrived)
				<-proceed
				r.accept(req)
			})
			slow := make(chan error, 1)
			go func() { slow <- s.Send(t.Context(), batch(7, `{"slow":true}`)) }()
			<-arrived
			r.setAnswer(nil)
			old(s)
			sendWorks(t, s)
			close(proceed)
			if err := <-slow; err != nil {
				t.Errorf("the request on the old connection failed: %v", err)
			}
			if got := r.connections(); got != 2 {
				t.Errorf("%d connections were made, want another in place of the old one", got)
			}
			sendWorks(t, s)
			if got := r.connections(); got != 2 {
				t.Errorf("%d connections were made, want the new one used again", got)
			}
		})
	}
}

// A certificate that was renewed is shown when connections are made anew.
func TestRenewedClientCertificate(t *testing.T) {
	ca := testcert.NewCA(t)
	r := tlsReceiver(t, ca, true)
	first, second := ca.Issue(t, "127.0.0.1"), ca.Issue(t, "127.0.0.1")
	s := openSink(t, r.URL, withTLS(config.TLS{CAFile: ca.File, CertFile: first.CertFile, KeyFile: first.KeyFile}))
	shown := func() string { return r.lastRequest(t).TLS.PeerCertificates[0].SerialNumber.String() }
	sendWorks(t, s)
	before := shown()
	for from, to := range map[string]string{second.CertFile: first.CertFile, second.KeyFile: first.KeyFile} {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	old(s)
	sendWorks(t, s)
	if after := shown(); after == before {
		t.Errorf("certificate %s is shown after its renewal", after)
	}
}

func TestResetInMidBody(t *testing.T) {
	r := newReceiver(t, (*httptest.Server).Start)
	r.setAnswer(func(w http.ResponseWriter, req *http.Request) {
		if _, err := io.CopyN(io.Discard, req.Body, 100<<10); err != nil {
			t.Errorf("the body ends after less than 100 KiB: %v", err)
		}
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		conn.(*net.TCPConn).SetLinger(0) // a reset
		conn.Close()
	})
	s := openSink(t, r.URL)
	long := batch(1, `{"a":"`+strings.Repeat("x", 8<<20)+`"}`)
	err := s.Send(t.Context(), long)
	if f := sinks.FailureOf(err); err == nil || f.Kind != sinks.Transient || !strings.Contains(err.Error(), "closed before an answer came") {
		t.Errorf("Send = %v, want a transient failure that says the connection was closed", err)
	}
	r.setAnswer(nil)
	if err := s.Send(t.Context(), long); err != nil {
		t.Errorf("Send when it is over = %v, want nil", err)
	}
}

// transport is that of the present client.
func (c *connection) transport() *http.Transport {
	return c.pool.Load().Transport.(wholeRequests).Transport
}
