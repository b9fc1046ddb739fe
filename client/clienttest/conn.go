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

const (
	// readBuffer is what is read at once.
	readBuffer = 64 << 10
	// endlessFactor is how many times the limit a line may go on for.
	endlessFactor = 16
	// grace is how long a producer may go on sending after a closing line: what
	// it had written before it read that is no fault.
	grace = 2 * time.Second
)

var (
	errEndless = errors.New("endless line")
	errSevered = errors.New("the exporter has broken the connection")
)

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
	hello    stream.Hello
	next     uint64 // number of the next line
	got      int    // lines that came
	open     int    // lines held
	eof      bool   // nothing more comes
	late     bool   // something came long after the closing line
	closedAt time.Time

	known    uint64 // what the answer to the hello says
	answered bool
	through  uint64 // every line up to it is decided
	acked    uint64 // the last ack says so
	refusals []stream.Refused
	full     []stream.Refused // those with QueueFull: the last to be told
	closing  string           // the reason of the closing line; empty: none yet
	writing  bool             // replies are on their way
	failed   bool             // the producer takes no replies any more
}

func newConn(e *Exporter, nc net.Conn) *conn {
	c := &conn{e: e, nc: nc, done: make(chan struct{})}
	c.in = bufio.NewReaderSize(tap{c}, readBuffer)
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
	bytewise, ok := t.mayRead()
	if !ok {
		return 0, errSevered
	}
	if bytewise {
		p = p[:1]
	}
	n, err := t.nc.Read(p)
	if _, ok := t.mayRead(); !ok {
		return 0, errSevered
	}
	return n, err
}

// mayRead waits while the exporter is stalled. It is not ok once severed.
func (c *conn) mayRead() (bytewise, ok bool) {
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	ok = c.e.await(c.done, func() bool { return !c.e.stalled || c.closing != "" || c.severed })
	return c.e.inside != nil, ok && !c.severed
}

// read takes lines until there are no more.
func (c *conn) read() {
	for {
		if c.cutHere() {
			return
		}
		line, length, err := c.readLine()
		switch {
		case err == nil:
			c.take(line, length)
		case errors.Is(err, errEndless):
			c.endless(line, length)
		default:
			c.end(line, length)
			return
		}
	}
}

// readLine returns the next line without its newline and a "\r" before it: its
// beginning if length, the whole length, is over the limit. With an error it
// returns what came before, with errEndless its beginning.
func (c *conn) readLine() (line []byte, length int, err error) {
	c.e.mu.Lock()
	limit := c.e.limit
	c.e.mu.Unlock()
	for {
		piece, err := c.in.ReadSlice('\n')
		length += len(piece)
		line = append(line, piece[:min(len(piece), max(limit+2-len(line), 0))]...)
		switch {
		case err == nil && length <= limit+2:
			line = bytes.TrimSuffix(line[:length-1], []byte("\r"))
			return line, len(line), nil
		case err == nil:
			return line[:limit], length - 1, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return line, length, err
		case length > endlessFactor*limit:
			return line[:limit], length, errEndless
		}
	}
}

// cutHere breaks the connection inside the next line if BreakInside wants that.
func (c *conn) cutHere() bool {
	c.e.mu.Lock()
	cut := c.begun && c.closing == "" && c.e.inside != nil && c.e.inside.left <= 1
	c.e.mu.Unlock()
	if !cut {
		return false
	}
	for {
		b, err := c.in.ReadByte()
		if err != nil {
			c.end(nil, 0)
			return true
		}
		if !bytes.ContainsRune([]byte(" \t\r\n"), rune(b)) {
			break
		}
	}
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	c.e.inside = nil
	c.breakSettled()
	return true
}

// breakSettled breaks the connection when what is owed is told, with mu held.
func (c *conn) breakSettled() {
	c.e.await(c.done, func() bool { return !c.owes() && !c.writing })
	c.sever()
}

// take deals with a line of that length, which may be over the limit.
func (c *conn) take(line []byte, length int) {
	e := c.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if c.severed { // what was read before counts for nothing
		return
	}
	if c.closing != "" {
		c.tooLate()
		return
	}
	if length == len(line) && len(bytes.TrimSpace(line)) == 0 {
		return
	}
	if !c.begun {
		if c.begin(line); c.producer != nil || c.closing != "" || c.severed {
			return
		}
	} else if c.producer != nil && stream.IsHello(line) {
		e.violation("producer %s: a second hello on a connection", c.producer.name)
		c.close("broken hello: a connection has only one, on its first line")
		return
	}
	c.receive(line, length)
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
	case c.e.hellos > 0:
		c.e.hellos--
		c.sever()
	default:
		c.e.greet(c, hello)
	}
}

// receive takes a record, with mu held, which it gives away while it does what
// is planned for this line.
func (c *conn) receive(line []byte, length int) {
	e := c.e
	l, fl := Line{Text: string(line)}, flawOf(line, length, e.limit)
	if c.producer != nil {
		l.Producer, l.Number = c.producer.name, c.next
		c.next++
		c.producer.check(e, l)
	}
	if fl.reason != "" {
		e.violation("%s: %s", l.name(), fl.detail)
	}
	c.got++
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
	// The line to be broken was read as a whole: it is lost all the same.
	if e.inside != nil && e.inside.left <= 0 {
		e.inside = nil
		c.breakSettled()
	}
}

// end deals with what came after the last newline: in plain mode it is a line.
func (c *conn) end(line []byte, length int) {
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	blank := len(bytes.TrimSpace(line)) == 0
	if !blank && !c.begun && c.closing == "" && !c.severed {
		c.begin(line)
	}
	if !blank && c.begun && c.producer == nil && c.closing == "" && !c.severed {
		c.receive(bytes.TrimSuffix(line[:min(length, c.e.limit)], []byte("\r")), length)
	}
	c.eof = true
	c.e.notify()
}

// endless ends a connection on which a line does not end. The line is refused
// first: if it were not decided it would come again for ever.
func (c *conn) endless(line []byte, length int) {
	c.take(line, length)
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	if c.severed || c.closing != "" {
		return
	}
	c.e.violation("%s: no newline in %d times the limit of %d bytes a line", c.name(), endlessFactor, c.e.limit)
	c.close(fmt.Sprintf("lost framing: no newline in %d times the limit of %d bytes a line", endlessFactor, c.e.limit))
}

// tooLate deals with something that came although the connection is closing,
// with mu held.
func (c *conn) tooLate() {
	if !c.late && !c.closedAt.IsZero() && time.Since(c.closedAt) > grace {
		c.late = true
		c.e.violation("%s: still sends lines %s after the closing line (%s)", c.name(), grace, c.closing)
	}
}

func (c *conn) name() string {
	if c.producer == nil {
		return "a producer in plain mode"
	}
	return "producer " + c.producer.name
}

func (l Line) name() string {
	if l.Producer == "" {
		return "a line of plain mode"
	}
	return fmt.Sprintf("producer %s: line %d", l.Producer, l.Number)
}

// flaw is why no exporter could store a line.
type flaw struct{ reason, detail string }

func flawOf(line []byte, length, limit int) flaw {
	first := bytes.TrimSpace(line)
	switch {
	case length > limit:
		return flaw{stream.TooLarge, fmt.Sprintf("%d bytes are more than the limit of %d", length, limit)}
	case !utf8.Valid(line):
		return flaw{stream.InvalidJSON, "not UTF-8"}
	case !json.Valid(line):
		return flaw{stream.InvalidJSON, "not valid JSON"}
	case len(first) == 0 || first[0] != '{':
		return flaw{stream.NotObject, "not a JSON object"}
	}
	return flaw{}
}
