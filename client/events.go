package client

import (
	"log/slog"
	"time"
)

// lossLogPause is the least time between two words about losses in the log: a
// client that is overloaded for hours must not fill it.
const lossLogPause = time.Minute

// events says in the log what happens to the connection. Its methods are called
// one at a time.
type events struct {
	log      *slog.Logger
	trouble  string // what was said last, until there is a connection
	attempts int    // since then
	lost     uint64 // said to be lost
	lostAt   time.Time
}

// connected is told of each connection.
func (e *events) connected(forgotten uint64) {
	if e.trouble != "" {
		e.log.Info("connected to the exporter again", "attempts", e.attempts+1)
		e.trouble, e.attempts = "", 0
	}
	if forgotten > 0 {
		e.log.Warn("the exporter has forgotten records that it had stored: is its queue a new one?", "records", forgotten)
	}
}

// disconnected says the same fault once.
func (e *events) disconnected(err error) {
	e.attempts++
	if text := err.Error(); text != e.trouble {
		e.trouble = text
		e.log.Warn("no connection to the exporter: records wait in the buffer", "error", err)
	}
}

// losses is told how many records are lost so far.
func (e *events) losses(total uint64) {
	now := time.Now()
	if total == e.lost || !e.lostAt.IsZero() && now.Before(e.lostAt.Add(lossLogPause)) {
		return
	}
	e.log.Warn("records were lost, which the exporter is told: the buffer was full, or they could not be encoded",
		"records", total-e.lost, "since_start", total)
	e.lost, e.lostAt = total, now
}

func (c *Client) disconnected(err error, _ time.Duration) {
	c.events.disconnected(err)
	c.logLosses()
}

// logLosses is called by the link, and by Close when the link has ended.
func (c *Client) logLosses() {
	c.events.losses(c.link.lostRecords())
}

// acked is told that the first n lines of this client are handled.
func (c *Client) acked(n uint64) {
	if c.spill != nil {
		c.spill.acked(n)
	}
}
