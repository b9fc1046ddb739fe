package clienttest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/docket-export/docket/decision/stream"
)

// maxRecordBytes is the limit that a real exporter has by default.
const maxRecordBytes = 1 << 20

// conn is one connection. All but the first two fields is guarded by e.mu.
type conn struct {
	e  *Exporter
	nc net.Conn

	gone     bool      // the connection is broken
	begun    bool      // the first line has come
	producer *producer // nil in plain mode
	name     string    // of the producer
	next     uint64    // number of the next line
	open     int       // lines held
	eof      bool      // nothing more comes
	out      []byte    // replies that are to be written
	closing  bool      // out ends with the reason why the connection is closed
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

// sever breaks the connection, with mu held. What is held of it is lost.
func (c *conn) sever() {
	if c.gone {
		return
	}
	c.gone = true
	c.nc.Close()
	var kept []pending
	for _, p := range c.e.pending {
		if p.c != c {
			kept = append(kept, p)
		}
	}
	c.e.pending = kept
}

// close ends the connection with a reason, with mu held.
func (c *conn) close(reason string) {
	c.closing = true
	c.out = stream.Closing{Reason: reason}.Append(c.out)
}

// write is the writing goroutine. It ends with the connection, or when nothing
// more comes and nothing is owed.
func (c *conn) write() {
	e := c.e
	for {
		e.mu.Lock()
		e.await(func() bool { return c.gone || len(c.out) > 0 || c.eof && c.open == 0 })
		out, last, gone := c.out, c.closing || c.eof && c.open == 0, c.gone
		c.out = nil
		e.mu.Unlock()
		if gone {
			return
		}
		if _, err := c.nc.Write(out); err != nil || last {
			e.change(c.sever)
			return
		}
	}
}

// read takes lines until there are no more. In plain mode what comes after the last
// newline is a line.
func (c *conn) read() {
	in := bufio.NewReader(c.nc)
	for more := true; more; {
		line, err := in.ReadBytes('\n')
		more = err == nil
		c.e.change(func() {
			c.e.await(func() bool { return c.gone || !c.e.stalled })
			if more || c.producer == nil {
				c.take(bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")))
			}
			c.eof = !more
		})
	}
}

// take deals with a line, with mu held. What was read before the connection was
// broken or closed counts for nothing.
func (c *conn) take(line []byte) {
	if c.gone || c.closing || len(bytes.TrimSpace(line)) == 0 {
		return
	}
	if !c.begun {
		c.begun = true
		hello, err := stream.ParseHello(line)
		switch {
		case err == nil:
			c.greet(hello)
			return
		case !errors.Is(err, stream.ErrNotHello):
			c.e.violation("%w", err)
			c.close(err.Error())
			return
		}
	} else if c.producer != nil && stream.IsHello(line) {
		c.e.violation("producer %s: a second hello on a connection", c.name)
		c.close("broken hello: a connection has only one, on its first line")
		return
	}
	c.receive(Line{Text: string(line)})
}

// greet begins acknowledged mode, with mu held.
func (c *conn) greet(hello stream.Hello) {
	p := c.e.producers[hello.Producer]
	switch {
	case p == nil:
		p = &producer{seen: make(map[uint64]string)}
		c.e.producers[hello.Producer] = p
	case p.acked > 0 && hello.Next > p.acked+1:
		c.e.violation("producer %s: said hello with next %d after line %d: the lines between them were never received", hello.Producer, hello.Next, p.acked)
	}
	if p.live != nil { // the newer connection takes over
		p.live.sever()
	}
	p.live = c
	c.producer, c.name, c.next = p, hello.Producer, hello.Next
	c.out = stream.Answer{Acked: p.acked}.Append(c.out)
}

// receive takes a record, with mu held.
func (c *conn) receive(l Line) {
	if c.producer != nil {
		l.Producer, l.Number = c.name, c.next
		c.next++
		if before, ok := c.producer.seen[l.Number]; ok && before != l.Text {
			c.e.violation("producer %s: line %d was %.80s and is %.80s now: a number must always mean the same bytes", c.name, l.Number, before, l.Text)
		}
		c.producer.seen[l.Number] = l.Text
	}
	if _, flaw := flawOf(l.Text); flaw != "" {
		c.e.violation("producer %q: line %d: %s", l.Producer, l.Number, flaw)
	}
	if c.producer != nil && l.Number <= c.producer.acked {
		c.out = stream.Ack{Through: l.Number}.Append(c.out)
		return
	}
	c.e.pending = append(c.e.pending, pending{c, l})
	c.open++
	if !c.e.held {
		c.e.settle(len(c.e.pending))
	}
}

// flawOf says why no exporter could store a line; empty: one could.
func flawOf(line string) (reason, detail string) {
	switch {
	case len(line) > maxRecordBytes:
		return stream.TooLarge, fmt.Sprintf("%d bytes are more than the limit of %d", len(line), maxRecordBytes)
	case !utf8.ValidString(line):
		return stream.InvalidJSON, "not UTF-8"
	case !json.Valid([]byte(line)):
		return stream.InvalidJSON, "not valid JSON"
	case !strings.HasPrefix(strings.TrimSpace(line), "{"):
		return stream.NotObject, "not a JSON object"
	}
	return "", ""
}
