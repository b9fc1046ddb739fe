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
		host, _, _ := net.SplitHostPort(accepted.RemoteAddr().String())
		c := &conn{Conn: accepted, listener: l, address: host, since: time.Now()}
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

// begin counts a request on c.
func (l *listener) begin(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count(c, 1)
	if l.requests > l.maxRequests {
		_ = l.drop(l.busiest())
	}
}

// end counts a request less, whose body is b.
func (l *listener) end(b *body) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count(b.conn, -1)
	b.over = true
	if b.whole {
		b.conn.whole--
		b.conn.since = time.Now()
	}
}

// count counts n requests more on c. mu is held.
func (l *listener) count(c *conn, n int) {
	c.requests += n
	if _, ok := l.conns[c]; ok {
		l.requests += n
	}
}

// victim returns the connection that gives way to another, nil if each is at work. mu is
// held.
func (l *listener) victim() *conn {
	return l.greediest(func(*conn) int { return 1 }, func(c *conn) bool { return c.whole == 0 })
}

// busiest returns the connection that gives way to a request. mu is held.
func (l *listener) busiest() *conn {
	return l.greediest(func(c *conn) int { return c.requests }, func(*conn) bool { return true })
}

// greediest returns one of the connections that may be: of the address that has most, the
// one that has most, and of several the one that has waited longest. mu is held.
func (l *listener) greediest(has func(*conn) int, may func(*conn) bool) (greediest *conn) {
	all := make(map[string]int)
	for c := range l.conns {
		all[c.address] += has(c)
	}
	for c := range l.conns {
		if may(c) && (greediest == nil || cmp.Or(all[c.address]-all[greediest.address], has(c)-has(greediest), greediest.since.Compare(c.since)) > 0) {
			greediest = c
		}
	}
	return greediest
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

type connKey struct{}

// withConn is for http.Server.ConnContext.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c.(*tls.Conn).NetConn())
}
