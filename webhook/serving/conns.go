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
type listener struct {
	net.Listener
	max int

	mu    sync.Mutex
	conns map[*conn]struct{} // guarded by mu
}

func newListener(l net.Listener, most int) *listener {
	return &listener{Listener: l, max: most, conns: make(map[*conn]struct{})}
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
		delete(l.conns, victim)
		victim.Conn.Close()
	}
	l.conns[c] = struct{}{}
	return true
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

	whole int       // requests that have arrived whole and are not answered; guarded by listener.mu
	since time.Time // when it was opened, or last answered a request; guarded by listener.mu
}

func (c *conn) Close() error {
	c.listener.mu.Lock()
	delete(c.listener.conns, c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
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
