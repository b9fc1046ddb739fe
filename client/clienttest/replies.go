package clienttest

import (
	"time"

	"github.com/docket-export/docket/decision/stream"
)

// write is the writing goroutine. It ends with the connection, or when nothing
// more comes and nothing is owed.
func (c *conn) write() {
	for {
		out, was, ok := c.nextReplies()
		if !ok {
			return
		}
		_, err := c.nc.Write(out)
		if c.written(was, err) {
			return
		}
	}
}

// nextReplies waits for something to say. It counts as told from now on; was is
// what the producer was told before.
func (c *conn) nextReplies() (out []byte, was uint64, ok bool) {
	e := c.e
	e.mu.Lock()
	defer e.mu.Unlock()
	for {
		if !e.await(c.done, func() bool { return c.owes() || c.eof && c.open == 0 }) || !c.owes() {
			return nil, 0, false
		}
		if !c.wait(e.delay) {
			return nil, 0, false
		}
		if c.owes() { // still, after the delay
			out, was = c.reply()
			return out, was, true
		}
	}
}

// wait gives mu away for d. It is false once the connection is severed.
func (c *conn) wait(d time.Duration) bool {
	if d <= 0 {
		return !c.severed
	}
	c.e.mu.Unlock()
	defer c.e.mu.Lock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.done:
		return false
	}
}

// owes reports whether there is something to tell, with mu held.
func (c *conn) owes() bool {
	switch {
	case c.failed || !c.closedAt.IsZero():
		return false
	case c.closing != "", c.producer != nil && !c.answered:
		return true
	}
	return c.producer != nil && !c.e.muted && (len(c.refusals) > 0 || c.through > c.acked)
}

// reply returns what is owed, with mu held.
func (c *conn) reply() (out []byte, was uint64) {
	c.writing = true
	p := c.producer
	if p != nil {
		was = p.told
		if !c.answered {
			c.answered = true
			out = stream.Answer{Acked: c.known}.Append(out)
			p.told = max(p.told, c.known)
		}
		if !c.e.muted {
			for _, r := range c.refusals {
				out = r.Append(out)
			}
			c.refusals = nil
			if c.through > c.acked {
				if c.e.delay > 0 {
					out = stream.Ack{Through: p.told, Waiting: stream.QueueFull}.Append(out)
				}
				c.acked = c.through
				out = stream.Ack{Through: c.acked}.Append(out)
				p.told = max(p.told, c.acked)
			}
			for _, r := range c.full {
				out = r.Append(out)
			}
			c.full = nil
		}
	}
	// The time runs from here, and bounds the write as well.
	if c.closing != "" {
		c.closedAt = time.Now()
		deadline := c.closedAt.Add(2 * grace)
		// It fails only on a closed connection, and so does what comes next.
		_ = c.nc.SetDeadline(deadline)
		out = stream.Closing{Reason: c.closing}.Append(out)
	}
	c.e.notify()
	return out, was
}

// written takes the outcome of a write. It reports whether that was the last.
func (c *conn) written(was uint64, err error) bool {
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	if err != nil {
		c.failed = true
		if c.producer != nil && c.producer.live == c {
			c.producer.told = was
		}
	}
	c.writing = false
	c.e.notify()
	if c.closedAt.IsZero() {
		return false
	}
	// The producer sees the end, and we see what it still sends.
	if half, ok := c.nc.(interface{ CloseWrite() error }); ok && err == nil {
		_ = half.CloseWrite() // it fails only where the producer has gone
	}
	return true
}
