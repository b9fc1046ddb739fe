package tap_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/docket-export/docket/webhook/tap"
)

// A status that cannot be passed on is an engine that fails: no panic, and not the client's
// fault.
func TestStatusOfNothing(t *testing.T) {
	for _, status := range []string{"000 x", "099 x", "101 Switching Protocols"} {
		proxy, _ := brokenEngine(t, func(nc net.Conn) {
			io.WriteString(nc, "HTTP/1.1 "+status+"\r\nUpgrade: other\r\nConnection: Upgrade\r\nContent-Length: 0\r\n\r\n")
		})
		for _, p := range protocols {
			s := newServer(t, p, proxy)
			got := ask(t, newClient(t, p, s), s.URL, request("POST", "/", "{}", jsonHeader))
			if got.Status != http.StatusBadGateway {
				t.Errorf("%s, engine says %s: got %d %q, want 502", p, status, got.Status, got.Body)
			}
		}
	}
}

// An engine that is replaced by one of another protocol is asked what it would have been
// asked: a body that was read for a connection of the old one is not lost, and no header is
// added.
func TestEngineChangesProtocol(t *testing.T) {
	var speaks atomic.Value
	speaks.Store("http/1.1")
	e := httptest.NewUnstartedServer(http.HandlerFunc(mirror))
	e.EnableHTTP2 = true
	e.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		c := &tls.Config{Certificates: e.TLS.Certificates, NextProtos: []string{speaks.Load().(string)}}
		return c, nil
	}}
	e.StartTLS()
	t.Cleanup(e.Close)
	through := newTap(t, "h2", e, nil)
	c := newClient(t, "h2", through)
	header := http.Header{"Content-Type": jsonHeader["Content-Type"], "User-Agent": nil}
	for _, next := range []string{"h2", "http/1.1", "h2"} {
		body := strings.Repeat("x", 100<<10)
		for _, length := range []int{10, len(body)} {
			speaks.Store(map[string]string{"h2": "http/1.1", "http/1.1": "h2"}[next])
			e.CloseClientConnections()
			ask(t, c, through.URL, request("POST", "/", "{}", jsonHeader)) // and leaves an idle connection
			speaks.Store(next)
			e.CloseClientConnections()
			got := ask(t, c, through.URL, request("POST", "/", body[:length], header))
			if next == "http/1.1" && got.Status == http.StatusBadGateway { // it has crossed the end of HTTP/2; see transport
				got = ask(t, c, through.URL, request("POST", "/", body[:length], header))
			}
			if n := strings.Count(got.Body, "x"); got.Status != http.StatusOK || n < length {
				t.Errorf("an engine that speaks %s now got %d of %d bytes, and the answer was %d %.200q", next, n, length, got.Status, got.Body)
			}
			if strings.Contains(strings.ToLower(got.Body), "user-agent") {
				t.Errorf("an engine that speaks %s now got a User-Agent that nobody has sent: %.400q", next, got.Body)
			}
		}
	}
}

// A review whose time is over leaves nothing to the next on its connection, which the
// deadline of its body could meet.
func TestTimedOutConnectionEnds(t *testing.T) {
	e := newServer(t, "http/1.1", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	var ended results
	through := newTap(t, "http/1.1", e, func(c *tap.Config) { c.Observe = ended.observe })
	nc := dialRaw(t, through)
	io.WriteString(nc, "POST /?timeout=10ms HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
	res, err := http.ReadResponse(bufio.NewReader(nc), nil)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusGatewayTimeout || !res.Close {
		t.Errorf("got %s, and the connection ends: %t; want 504, true", res.Status, res.Close)
	}
	ended.want(t, tap.TimedOut, 1)
}
