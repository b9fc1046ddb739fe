package clienttest

import (
	"time"

	"github.com/docket-export/docket/decision/stream"
)

// write is the writing goroutine. It ends with the connection, or when nothing
// more comes and nothing is owed.
func (c *conn) write() {
	for {
		out, ok := c.nextReplies()
		if !ok {
			return
		}
		_, err := c.nc.Write(out)
		if c.written(err) {
			return
		}
	}
}

// nextReplies waits for something to say.
func (c *conn) nextReplies() (out []byte, ok bool) {
	e := c.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.await(c.done, func() bool { return c.owes() || c.eof && c.open == 0 }) || !c.owes() {
		return nil, false
	}
	return c.reply(), true
}

// owes reports whether there is something to tell, with mu held.
func (c *conn) owes() bool {
	switch {
	case c.failed || c.ended:
		return false
	case c.closing != "", c.producer != nil && !c.answered:
		return true
	}
	return c.producer != nil && !c.e.muted && (len(c.refusals) > 0 || c.through > c.acked)
}

// reply returns what is owed, with mu held.
func (c *conn) reply() (out []byte) {
	c.writing = true
	if c.producer != nil {
		if !c.answered {
			c.answered = true
			out = stream.Answer{Acked: c.known}.Append(out)
		}
		if !c.e.muted {
			for _, r := range c.refusals {
				out = r.Append(out)
			}
			c.refusals = nil
			if c.through > c.acked {
				c.acked = c.through
				out = stream.Ack{Through: c.acked}.Append(out)
			}
		}
	}
	if c.closing != "" {
		c.ended = true
		// A producer may leave the connection open, or read nothing. Setting the deadline
		// fails only on a closed connection.
		_ = c.nc.SetDeadline(time.Now().Add(grace))
		out = stream.Closing{Reason: c.closing}.Append(out)
	}
	c.e.notify()
	return out
}

// written takes the outcome of a write. It reports whether that was the last.
func (c *conn) written(err error) bool {
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	c.failed = c.failed || err != nil
	c.writing = false
	c.e.notify()
	if !c.ended {
		return false
	}
	// The producer sees the end, and may still write.
	if half, ok := c.nc.(interface{ CloseWrite() error }); ok && err == nil {
		_ = half.CloseWrite() // it fails only where the producer has gone
	}
	return true
}
