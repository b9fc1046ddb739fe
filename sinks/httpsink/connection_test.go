package httpsink

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/internal/testcert"
	"github.com/docket-export/docket/sinks"
)

func TestOneConnection(t *testing.T) {
	t.Parallel()
	ca := testcert.NewCA(t)
	for name, r := range map[string]*receiver{
		"HTTP/1.1": newReceiver(t, (*httptest.Server).Start),
		"HTTP/2.0": tlsReceiver(t, ca, false),
	} {
		t.Run(name, func(t *testing.T) {
			var s sinks.Sink
			if name == "HTTP/1.1" {
				s = openSink(t, r.URL)
			} else {
				s = openSink(t, r.URL, withTLS(config.TLS{CAFile: ca.File}))
			}
			const batches = 1000
			for range batches {
				sendWorks(t, s)
			}
			if got := r.lastRequest(t).Proto; got != name {
				t.Errorf("spoke %s, want %s", got, name)
			}
			if got := r.connections(); got > batches/50 { // see TestConnectionIsReused
				t.Errorf("%d batches took %d connections, want one", batches, got)
			}
		})
	}
}

// old makes the connections of s as old as they become.
func old(s sinks.Sink) {
	wire := s.(*sink).wire
	wire.mu.Lock()
	defer wire.mu.Unlock()
	wire.until = time.Now()
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

// relay passes TCP connections on to a server, until those there are are frozen:
// they stay open, and nothing passes any more, as behind a firewall that has
// forgotten them.
type relay struct {
	net.Listener
	mu     sync.Mutex
	frozen chan struct{} // guarded by mu; closed to freeze the connections there are
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{Listener: l, frozen: make(chan struct{})}
	done := make(chan struct{})
	var pipes sync.WaitGroup
	pipes.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				t.Errorf("relay: %v", err)
				client.Close()
				return
			}
			r.mu.Lock()
			frozen := r.frozen
			r.mu.Unlock()
			pipes.Go(func() { pipe(server, client, frozen, done) })
			pipes.Go(func() { pipe(client, server, frozen, done) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		close(done)
		pipes.Wait()
	})
	return r
}

func (r *relay) freeze() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.frozen)
	r.frozen = make(chan struct{})
}

// pipe copies until either end closes; once frozen it swallows what comes.
func pipe(to, from net.Conn, frozen, done <-chan struct{}) {
	defer to.Close()
	go func() { // ends the read below
		<-done
		from.Close()
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		select {
		case <-frozen:
			continue
		default:
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// An HTTP/2 connection that is silent for ever must not fail attempt after
// attempt. It is asked a hundred times as soon as it is in use.
func TestSilentConnectionIsGivenUp(t *testing.T) {
	t.Parallel()
	ca := testcert.NewCA(t)
	r := tlsReceiver(t, ca, false)
	between := newRelay(t, r.Listener.Addr().String())
	s := openSink(t, "https://"+between.Addr().String(), withTLS(config.TLS{CAFile: ca.File}))
	s.(*sink).wire.transport().HTTP2.SendPingTimeout /= 100
	sendWorks(t, s)
	between.freeze()
	for attempt := 1; ; attempt++ {
		err := s.Send(t.Context(), batch(1, `{"a":1}`))
		if err == nil {
			break
		}
		if kind := sinks.FailureOf(err).Kind; kind != sinks.Transient {
			t.Fatalf("Send failed as %v (%v), want %v", kind, err, sinks.Transient)
		}
		if attempt == 4 {
			t.Fatalf("attempt %d failed too (%v), want a new connection after the second at the latest", attempt, err)
		}
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
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.client.Transport.(wholeRequests).Transport
}
