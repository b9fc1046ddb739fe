package clienttest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/docket-export/docket/decision/stream"
)

// grace is how long a producer may leave a connection open after a closing line.
const grace = 4 * time.Second

var errSevered = errors.New("the exporter has broken the connection")

// conn is one connection. serve and what it calls read, write writes.
type conn struct {
	e    *Exporter
	nc   net.Conn
	in   *bufio.Reader
	done chan struct{} // closed by sever

	// What follows is guarded by e.mu.
	severed  bool
	begun    bool      // the first line has come
	producer *producer // nil in plain mode
	next     uint64    // number of the next line
	open     int       // lines held
	eof      bool      // nothing more comes

	known    uint64 // what the answer to the hello says
	answered bool
	through  uint64 // every line up to it is decided
	acked    uint64 // the last ack says so
	refusals []stream.Refused
	closing  string // the reason of the closing line; empty: none yet
	writing  bool   // replies are on their way
	failed   bool   // the producer takes no replies any more
	ended    bool   // the closing line was the last reply
}

func newConn(e *Exporter, nc net.Conn) *conn {
	c := &conn{e: e, nc: nc, done: make(chan struct{})}
	c.in = bufio.NewReader(tap{c})
	return c
}

// serve runs the connection to its end.
func (c *conn) serve() {
	var writing sync.WaitGroup
	writing.Go(c.write)
	c.read()
	writing.Wait()
	c.e.change(func() {
		c.sever()
		delete(c.e.conns, c)
	})
}

// sever breaks the connection, with mu held.
func (c *conn) sever() {
	if !c.severed {
		c.severed = true
		close(c.done)
		c.nc.Close()
		c.e.forgetPending(c)
		c.e.notify()
	}
}

// close makes the writer end the connection with a reason, with mu held.
func (c *conn) close(reason string) {
	if c.closing == "" {
		c.closing = reason
		c.e.notify()
	}
}

// tap reads from the connection, unless the exporter is stalled.
type tap struct{ *conn }

func (t tap) Read(p []byte) (int, error) {
	if !t.mayRead() {
		return 0, errSevered
	}
	n, err := t.nc.Read(p)
	if !t.mayRead() {
		return 0, errSevered
	}
	return n, err
}

// mayRead waits while the exporter is stalled. It is false once severed.
func (c *conn) mayRead() bool {
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	return c.e.await(c.done, func() bool { return !c.e.stalled || c.closing != "" || c.severed }) && !c.severed
}

// read takes lines until there are no more. In plain mode what comes after the last
// newline is a line.
func (c *conn) read() {
	for {
		line, err := c.in.ReadBytes('\n')
		if err == nil {
			c.take(bytes.TrimSuffix(line[:len(line)-1], []byte("\r")))
			continue
		}
		c.e.change(func() {
			if !c.begun || c.producer == nil {
				c.takeLocked(bytes.TrimSuffix(line, []byte("\r")))
			}
			c.eof = true
		})
		return
	}
}

// breakSettled breaks the connection when what is owed is told, with mu held.
func (c *conn) breakSettled() {
	c.e.await(c.done, func() bool { return !c.owes() && !c.writing })
	c.sever()
}

func (c *conn) take(line []byte) {
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	c.takeLocked(line)
}

// takeLocked deals with a line, with mu held. What was read before the connection was
// broken or closed counts for nothing.
func (c *conn) takeLocked(line []byte) {
	if c.severed || c.closing != "" || len(bytes.TrimSpace(line)) == 0 {
		return
	}
	if !c.begun {
		if c.begin(line); c.producer != nil || c.closing != "" {
			return
		}
	} else if c.producer != nil && stream.IsHello(line) {
		c.e.violation("producer %s: a second hello on a connection", c.producer.name)
		c.close("broken hello: a connection has only one, on its first line")
		return
	}
	c.receive(line)
}

// begin takes the first line, with mu held: a hello, or a line of plain mode,
// which is still to be received.
func (c *conn) begin(line []byte) {
	c.begun = true
	hello, err := stream.ParseHello(line)
	switch {
	case errors.Is(err, stream.ErrNotHello):
	case err != nil:
		c.e.violation("%w", err)
		c.close(err.Error())
	default:
		c.e.greet(c, hello)
	}
}

// receive takes a record, with mu held, which it gives away while it does what
// is planned for this line.
func (c *conn) receive(line []byte) {
	e := c.e
	l, fl := Line{Text: string(line)}, flawOf(line)
	if c.producer != nil {
		l.Producer, l.Number = c.producer.name, c.next
		c.next++
		c.producer.check(e, l)
	}
	if fl.reason != "" {
		e.violation("%s: %s", l.name(), fl.detail)
	}
	e.notify()
	if c.carryOut(e.due()); c.severed || c.closing != "" {
		return
	}
	if c.producer != nil && l.Number <= c.producer.acked {
		c.through = max(c.through, l.Number)
		return
	}
	e.pending = append(e.pending, pending{c, l, fl})
	c.open++
	if !e.held {
		e.settle(len(e.pending))
	}
}

// carryOut does what is planned, with mu held, which it gives away meanwhile.
func (c *conn) carryOut(plans []*plan) {
	e := c.e
	for _, p := range plans {
		if p.do == nil {
			c.breakSettled()
			continue
		}
		e.mu.Unlock()
		p.do()
		e.mu.Lock()
	}
}

func (l Line) name() string {
	if l.Producer == "" {
		return "a line of plain mode"
	}
	return fmt.Sprintf("producer %s: line %d", l.Producer, l.Number)
}

// flaw is why no exporter could store a line.
type flaw struct{ reason, detail string }

func flawOf(line []byte) flaw {
	first := bytes.TrimSpace(line)
	switch {
	case len(line) > maxRecordBytes:
		return flaw{stream.TooLarge, fmt.Sprintf("%d bytes are more than the limit of %d", len(line), maxRecordBytes)}
	case !utf8.Valid(line):
		return flaw{stream.InvalidJSON, "not UTF-8"}
	case !json.Valid(line):
		return flaw{stream.InvalidJSON, "not valid JSON"}
	case len(first) == 0 || first[0] != '{':
		return flaw{stream.NotObject, "not a JSON object"}
	}
	return flaw{}
}
