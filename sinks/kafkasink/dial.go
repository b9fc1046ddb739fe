package kafkasink

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// tlsSection is where the configuration says how to speak TLS.
const tlsSection = "kafka.tls"

// tlsAlert is the first byte of a TLS alert. A broker's answer begins with its
// length, which would have to exceed 300 MB to begin so.
const tlsAlert = 0x15

var errExpectsTLS = errors.New("the broker expects TLS on this port")

// dialer opens the connections of one sink and remembers them. A transport can
// close only those that are idle, and one that waits for an answer nobody is
// interested in would outlive its sink.
type dialer struct {
	net   net.Dialer
	plain bool // the connections are not going to speak TLS

	mu     sync.Mutex
	open   map[*conn]struct{} // guarded by mu
	closed bool               // guarded by mu
}

func newDialer(timeout time.Duration, plain bool) *dialer {
	return &dialer{
		// One address that swallows packets must leave time for the next.
		net:   net.Dialer{Timeout: min(3*time.Second, timeout/2)},
		plain: plain,
		open:  make(map[*conn]struct{}),
	}
}

func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	raw, err := d.net.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: raw, dialer: d, unread: d.plain}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		raw.Close()
		return nil, net.ErrClosed
	}
	d.open[c] = struct{}{}
	return c, nil
}

func (d *dialer) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for c := range d.open {
		c.Conn.Close()
	}
	clear(d.open)
}

// conn is a connection to a broker.
type conn struct {
	net.Conn
	dialer *dialer
	unread bool // nothing has come yet, and it must not be TLS
}

// Read notices a broker that answers a plain request with a TLS alert.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && c.unread {
		c.unread = false
		if p[0] == tlsAlert {
			return 0, errExpectsTLS
		}
	}
	return n, err
}

func (c *conn) Close() error {
	c.dialer.mu.Lock()
	delete(c.dialer.open, c)
	c.dialer.mu.Unlock()
	return c.Conn.Close()
}
