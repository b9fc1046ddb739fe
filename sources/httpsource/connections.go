package httpsource

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// connections are those of a server: at most max of them. Safe for concurrent use.
type connections struct {
	max int
	log *slog.Logger

	wg    sync.WaitGroup // of those in state
	mu    sync.Mutex
	state map[net.Conn]http.ConnState // guarded by mu
	full  time.Time                   // when it was logged last that there is no place; guarded by mu
}

func newConnections(limit int, log *slog.Logger) *connections {
	return &connections{max: limit, log: log, state: make(map[net.Conn]http.ConnState)}
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

// isFull reports whether there is no place for another.
func (c *connections) isFull() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.state) < c.max {
		return false
	}
	if time.Since(c.full) > logPause {
		c.full = time.Now()
		c.log.Warn("too many connections: clients are turned away", "maxConnections", c.max)
	}
	return true
}

// limited is a listener that turns away whom connections has no place for.
type limited struct {
	net.Listener
	conns *connections
	plain bool // a client understands what it is told before a TLS handshake
}

// Accept waits for the next connection that has a place.
func (l limited) Accept() (net.Conn, error) {
	for {
		nc, err := l.Listener.Accept()
		if err != nil || !l.conns.isFull() {
			return nc, err
		}
		if l.plain {
			turnAway(nc)
		}
		nc.Close()
	}
}

// turnAway says why. It does not wait: nothing else was written to the connection.
func turnAway(nc net.Conn) {
	const text = "too many connections: try again\n"
	_ = nc.SetWriteDeadline(time.Now().Add(time.Second))
	fmt.Fprintf(nc, "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
}
