package serving

import (
	"net"
	"sync"
)

// listener bounds how many connections are open, and how many of them come from one
// address: half. A connection too many is closed at once. So a client that opens
// connections and sends slowly keeps neither an API server nor a probe out.
type listener struct {
	net.Listener
	max int

	mu   sync.Mutex
	open map[string]int // connections by address; guarded by mu
	all  int            // guarded by mu
}

func newListener(l net.Listener, most int) *listener {
	return &listener{Listener: l, max: most, open: make(map[string]int)}
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		host, _, _ := net.SplitHostPort(accepted.RemoteAddr().String())
		if l.admit(host) {
			return &conn{Conn: accepted, close: sync.OnceValue(func() error {
				defer l.leave(host)
				return accepted.Close()
			})}, nil
		}
		accepted.Close()
	}
}

func (l *listener) admit(address string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= l.max || l.open[address] >= (l.max+1)/2 {
		return false
	}
	l.all++
	l.open[address]++
	return true
}

func (l *listener) leave(address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.open[address]--; l.open[address] == 0 {
		delete(l.open, address)
	}
}

// crowded reports whether a connection may be one too many.
func (l *listener) crowded() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all >= (l.max+1)/2
}

// conn is a connection that its listener counts.
type conn struct {
	net.Conn
	close func() error
}

func (c *conn) Close() error { return c.close() }
