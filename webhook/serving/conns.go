package serving

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"
)

// listener bounds how many connections are open. Where there would be more, one gives way:
// of the address that has most, the one that has been longest without a whole request. A
// client that opens connections and sends slowly loses its own, and keeps neither an
// API server nor a probe out. Where each connection is at work, the newcomer is refused.
//
// It also bounds how many requests run on all connections: those of HTTP/2 have many each.
// Where there would be more, a connection gives way with all that it has: of the address
// that has most requests, the one that has most.
type listener struct {
	net.Listener
	max         int
	maxRequests int

	mu       sync.Mutex
	conns    map[*conn]struct{} // guarded by mu
	requests int                // that run on conns; guarded by mu
}

func newListener(l net.Listener, most, mostRequests int) *listener {
	return &listener{Listener: l, max: most, maxRequests: mostRequests, conns: make(map[*conn]struct{})}
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: accepted, listener: l, address: hostOf(accepted.RemoteAddr()), since: time.Now()}
		if l.admit(c) {
			return c, nil
		}
		accepted.Close()
	}
}

// admit takes c in if there is room, or a connection that gives way.
func (l *listener) admit(c *conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.conns) >= l.max {
		victim := l.victim()
		if victim == nil {
			return false
		}
		_ = l.drop(victim)
	}
	l.conns[c] = struct{}{}
	return true
}

// drop closes c, and counts neither it nor its requests any more. mu is held.
func (l *listener) drop(c *conn) error {
	if _, ok := l.conns[c]; ok {
		delete(l.conns, c)
		l.requests -= c.requests
	}
	return c.Conn.Close()
}

// begin counts a request on c, and end one less.
func (l *listener) begin(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count(c, 1)
	if l.requests > l.maxRequests {
		_ = l.drop(l.busiest())
	}
}

func (l *listener) end(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count(c, -1)
}

// count counts n requests more on c. mu is held.
func (l *listener) count(c *conn, n int) {
	c.requests += n
	if _, ok := l.conns[c]; ok {
		l.requests += n
	}
}

// busiest returns the connection that has most requests, of the address that has most. mu
// is held.
func (l *listener) busiest() (busiest *conn) {
	running := make(map[string]int)
	for c := range l.conns {
		running[c.address] += c.requests
	}
	for c := range l.conns {
		if busiest == nil || cmp.Or(running[c.address]-running[busiest.address], c.requests-busiest.requests, busiest.since.Compare(c.since)) > 0 {
			busiest = c
		}
	}
	return busiest
}

// victim returns the connection that gives way, nil if each is at work. mu is held.
func (l *listener) victim() (victim *conn) {
	held := make(map[string]int)
	for c := range l.conns {
		held[c.address]++
	}
	for c := range l.conns {
		if c.whole > 0 {
			continue
		}
		if victim == nil || cmp.Or(held[c.address]-held[victim.address], victim.since.Compare(c.since)) > 0 {
			victim = c
		}
	}
	return victim
}

func (l *listener) full() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.conns) >= l.max
}

// conn is a connection that its listener counts.
type conn struct {
	net.Conn
	listener *listener
	address  string

	requests int // that run; guarded by listener.mu

	whole int       // requests that have arrived whole and are not answered; guarded by listener.mu
	since time.Time // when it was opened, or last answered a request; guarded by listener.mu
}

func (c *conn) Close() error {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	return c.listener.drop(c)
}

func hostOf(a net.Addr) string {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return host
}

type connKey struct{}

// withConn is for http.Server.ConnContext.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c.(*tls.Conn).NetConn())
}
