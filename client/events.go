package client

import (
	"errors"
	"log/slog"
	"time"
)

// lossLogPause is the least time between two log messages about losses: a
// client that is overloaded for hours must not fill it.
const lossLogPause = time.Minute

// events logs what happens to the connection. Its methods are called one at a time.
type events struct {
	log      *slog.Logger
	failure  string // logged last; empty once a connection has brought an ack
	attempts int    // since then
	useless  bool   // the last connection was answered, but brought no ack
	open     bool   // there is a connection that has brought no ack yet
	lost     uint64 // lost records logged so far
	lostAt   time.Time
}

// connected is told of each connection.
func (e *events) connected(forgotten uint64) {
	e.open = true
	if !e.useless {
		e.recovered()
	}
	if forgotten > 0 {
		e.log.Warn("docket no longer knows records that it has stored: it probably has a new queue", "records", forgotten)
	}
}

// acked is told that records were acknowledged.
func (e *events) acked() {
	e.open, e.useless = false, false
	e.recovered()
}

func (e *events) recovered() {
	if e.failure != "" {
		e.log.Info("connected to docket again", "attempts", e.attempts+1)
		e.failure, e.attempts = "", 0
	}
}

// disconnected logs the same failure once. An exporter whose queue is full answers
// and closes each time: one failure.
func (e *events) disconnected(err error, ended bool) {
	e.attempts++
	e.useless, e.open = e.useless || e.open, false
	text := err.Error()
	switch {
	case ended:
		e.log.Error("the client has ended: every record is lost from now on", "error", err)
	case text != e.failure:
		e.log.Warn("no connection to docket: records wait in the buffer", "error", err)
	}
	e.failure = text
}

// losses is told how many records are lost so far.
func (e *events) losses(total uint64) {
	now := time.Now()
	if total == e.lost || !e.lostAt.IsZero() && now.Before(e.lostAt.Add(lossLogPause)) {
		return
	}
	e.log.Warn("records were lost, because the buffer was full or they could not be encoded: a loss record tells docket",
		"records", total-e.lost, "since_start", total)
	e.lost, e.lostAt = total, now
}

func (c *Client) disconnected(err error, _ time.Duration) {
	c.events.disconnected(err, errors.Is(err, errStolen))
	c.logLosses()
}

// logLosses is called by the link, and by Close when the link has ended.
func (c *Client) logLosses() {
	c.events.losses(c.link.lostRecords())
}
