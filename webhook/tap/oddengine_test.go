package tap_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
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
