package kafkasink

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// tlsSection is where the configuration says how to speak TLS.
const tlsSection = "kafka.tls"

// tlsAlert is the first byte of a TLS alert.
const tlsAlert = 0x15

var (
	errExpectsTLS = errors.New("the broker expects TLS on this port")
	errNotKafka   = errors.New("the service on this port is not a Kafka broker")
)

// dialer opens the connections of one sink and remembers them. A transport can
// close only those that are idle, and one that waits for an answer nobody is
// interested in would outlive its sink.
type dialer struct {
	net net.Dialer
	tls *tls.Config // nil: the connections are plain text

	mu     sync.Mutex
	open   map[*conn]struct{} // guarded by mu
	closed bool               // guarded by mu
}

func newDialer(timeout time.Duration, secure *tls.Config) *dialer {
	return &dialer{
		// One address that swallows packets must leave time for the next.
		net:  net.Dialer{Timeout: min(3*time.Second, timeout/2)},
		tls:  secure,
		open: make(map[*conn]struct{}),
	}
}

func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	raw, err := d.net.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: raw, raw: raw, dialer: d, unread: true}
	if d.tls != nil {
		c.Conn = tls.Client(raw, d.tlsTo(address)) // shakes hands with the first request
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		raw.Close()
		return nil, net.ErrClosed
	}
	d.open[c] = struct{}{}
	return c, nil
}

func (d *dialer) tlsTo(address string) *tls.Config {
	c := d.tls.Clone()
	if c.ServerName == "" {
		c.ServerName, _, _ = net.SplitHostPort(address)
	}
	return c
}

func (d *dialer) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for c := range d.open {
		c.raw.Close()
	}
	clear(d.open)
}

// conn is a connection to a broker.
type conn struct {
	net.Conn
	raw    net.Conn // Conn without TLS
	dialer *dialer
	unread bool // nothing has come yet
}

// Read refuses what is no answer of a broker. kafka-go makes room for as many things as an
// answer says that it lists, which is gigabytes where a text stands in place of the number.
// The first answer lists the kinds of requests that a broker knows:
//
//	length of what follows     4  less than 16 MB
//	correlation                4
//	code of an error           2
//	number of kinds            4  less than 65,536: each has a number in 2 bytes
func (c *conn) Read(p []byte) (int, error) {
	if !c.unread {
		return c.Conn.Read(p)
	}
	c.unread = false
	n, err := io.ReadAtLeast(c.Conn, p, 14)
	switch {
	case n > 0 && p[0] == tlsAlert && c.dialer.tls == nil:
		return 0, errExpectsTLS
	case n > 0 && p[0] != 0, err == nil && (p[10] != 0 || p[11] != 0):
		return 0, errNotKafka
	}
	return n, err
}

func (c *conn) Close() error {
	c.dialer.mu.Lock()
	delete(c.dialer.open, c)
	c.dialer.mu.Unlock()
	return c.Conn.Close()
}
