package httpsource

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/docket-export/docket/internal/fairconn"
	"github.com/docket-export/docket/sources/identity"
)

// connections are those of a server. Safe for concurrent use.
type connections struct {
	wg    sync.WaitGroup // of those in state
	mu    sync.Mutex
	state map[net.Conn]http.ConnState // guarded by mu
}

func newConnections() *connections {
	return &connections{state: make(map[net.Conn]http.ConnState)}
}

// len is the number of clients connected now.
func (c *connections) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.state)
}

// changed is http.Server.ConnState.
func (c *connections) changed(nc net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		c.wg.Add(1)
	case http.StateClosed, http.StateHijacked:
		delete(c.state, nc)
		c.wg.Done()
		return
	}
	c.state[nc] = state
}

// closeNew closes the connections that have sent nothing yet. Those who connect and
// only look whether they can need not be waited for.
func (c *connections) closeNew() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for nc, state := range c.state {
		if state == http.StateNew {
			nc.Close()
		}
	}
}

// newTable returns the places of a server. Those who find none are turned away, and told
// so where they understand it: before a TLS handshake they do not.
func newTable(most int, plain bool, log *slog.Logger) *fairconn.Table {
	var mu sync.Mutex
	var said time.Time // guarded by mu
	return fairconn.New(most, func(net.Conn) string { return identity.Anyone }, func(nc net.Conn) {
		mu.Lock()
		isNews := time.Since(said) > logPause
		if isNews {
			said = time.Now()
		}
		mu.Unlock()
		if isNews {
			log.Warn("too many connections: clients are turned away", "maxConnections", most)
		}
		if plain {
			turnAway(nc)
		}
		nc.Close()
	})
}

// turnAway says why. It does not wait: nothing else was written to the connection.
func turnAway(nc net.Conn) {
	const text = "too many connections: try again\n"
	_ = nc.SetWriteDeadline(time.Now().Add(time.Second))
	fmt.Fprintf(nc, "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
}
