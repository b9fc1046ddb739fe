package kafkasink

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// tlsSection is where the configuration says how to speak TLS.
const tlsSection = "kafka.tls"

// tlsAlert is the first byte of a TLS alert.
const tlsAlert = 0x15

// http2Settings are the type, flags and stream of the frame that a server begins HTTP/2 with,
// behind its length in three bytes. The stream stands where kafka-go has correlation 1.
var http2Settings = []byte{4, 0, 0, 0, 0}

// answerHead is the length of an answer and its correlation, in 4 bytes each.
const answerHead = 8

var (
	errExpectsTLS = errors.New("the broker expects TLS on this port")
	errHTTP       = errors.New("this port speaks HTTP, not Kafka")
	errNotKafka   = errors.New("the service on this port is not a Kafka broker")
)

// dialer opens the connections of one sink and remembers them. A transport can
// close only those that are idle, and one that waits for an answer nobody is
// interested in would outlive its sink.
type dialer struct {
	net net.Dialer
	tls *tls.Config // nil: the connections are plain text

	answerBytes int          // bounds answers
	answers     atomic.Int64 // bytes of memory that answers take, decoded

	mu     sync.Mutex
	open   map[*conn]struct{} // guarded by mu
	closed bool               // guarded by mu
}

func newDialer(timeout time.Duration, secure *tls.Config, answerBytes int) *dialer {
	return &dialer{
		// One address that swallows packets must leave time for the next.
		net: net.Dialer{Timeout: min(3*time.Second, timeout/2)},
		tls: secure,

		answerBytes: answerBytes,
		open:        make(map[*conn]struct{}),
	}
}

func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	raw, err := d.net.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: raw, raw: raw, dialer: d}
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

// conn is a connection to a broker, as kafka-go uses it: one goroutine writes a request and
// reads its answer before it writes the next.
type conn struct {
	net.Conn
	raw    net.Conn // Conn without TLS
	dialer *dialer

	asked    asked
	unsent   int    // bytes of the request that are not written yet
	answered bool   // at least once, by a broker
	answer   []byte // what kafka-go has not read yet
	held     int    // of dialer.answers
}

// Write notes what is asked. kafka-go writes a long request in pieces, none shorter than a head.
func (c *conn) Write(p []byte) (n int, err error) {
	if c.unsent == 0 {
		if c.asked, c.unsent, err = readAsked(p); err != nil {
			return 0, err
		}
	}
	n, err = c.Conn.Write(p)
	c.unsent -= n
	return n, err
}

// Read gives out answers that are whole and have been checked.
func (c *conn) Read(p []byte) (int, error) {
	if len(c.answer) == 0 {
		c.hold(-c.held)
		if err := c.readAnswer(); err != nil {
			return 0, err
		}
		c.answered = true
	}
	n := copy(p, c.answer)
	c.answer = c.answer[n:]
	return n, nil
}

func (c *conn) readAnswer() error {
	head := make([]byte, answerHead)
	n, err := io.ReadFull(c.Conn, head)
	if other := c.otherProtocol(head[:n]); other != nil {
		return other
	}
	if err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(head) - 4
	switch {
	case size < math.MaxInt32 && int(size) > c.dialer.answerBytes && c.answered:
		return fmt.Errorf("the answer to %s has %d bytes: docket takes at most %d", c.asked.key, size, c.dialer.answerBytes)
	case size > math.MaxInt32, int(size) > c.dialer.answerBytes, binary.BigEndian.Uint32(head[4:]) != c.asked.correlation:
		return c.malformed(fmt.Errorf("it does not answer %s", c.asked.key))
	}
	if err := c.hold(int(size)); err != nil {
		return err
	}
	answer := append(head, make([]byte, size)...)
	if _, err := io.ReadFull(c.Conn, answer[answerHead:]); err != nil {
		return err
	}
	cost, err := c.asked.check(answer[answerHead:])
	if err != nil {
		return c.malformed(err)
	}
	c.answer = answer
	return c.hold(cost)
}

// otherProtocol looks at the first bytes of an answer, which may be all that comes.
func (c *conn) otherProtocol(head []byte) error {
	text := bytes.ToUpper(head)
	switch {
	case c.answered || len(head) == 0:
		return nil
	case head[0] == tlsAlert && c.dialer.tls == nil:
		return errExpectsTLS
	case bytes.HasPrefix(text, []byte("HTTP/")), bytes.HasPrefix(text, []byte("<HTML")), bytes.HasPrefix(text, []byte("<!DOC")),
		len(head) == answerHead && head[0] == 0 && bytes.HasSuffix(head, http2Settings):
		return errHTTP
	case head[0] != 0:
		return errNotKafka
	}
	return nil
}

// malformed is err, what is wrong with an answer: with the first one, there is no broker.
func (c *conn) malformed(err error) error {
	if c.answered {
		return err
	}
	return fmt.Errorf("%w: %w", errNotKafka, err)
}

// hold takes bytes more of what the sink's answers may take together.
func (c *conn) hold(bytes int) error {
	c.held += bytes
	if int(c.dialer.answers.Add(int64(bytes))) > c.dialer.answerBytes && bytes > 0 {
		return fmt.Errorf("the answers of the brokers take more than %d bytes of memory", c.dialer.answerBytes)
	}
	return nil
}

func (c *conn) Close() error {
	c.dialer.mu.Lock()
	delete(c.dialer.open, c)
	c.dialer.mu.Unlock()
	c.hold(-c.held)
	return c.Conn.Close()
}
