package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/docket-export/docket/bench/host"
	"github.com/docket-export/docket/bench/trial"
)

// serveFunc is a destination in this process, to which docket and the plain programs
// deliver: it takes connections from d until the measurement ends. It does as little as
// such a server can, and counts what it takes, so that all of them are measured by the
// same clock. Connections that come before it wait, so that what a program does at its
// start is not measured.
type serveFunc func(t *trial.T, d net.Listener, c *counter)

// serveRecords is the least that an HTTP receiver does: it reads the body and says 200.
func serveRecords(t *trial.T, d net.Listener, c *counter) {
	serveHTTP(t, d, func(w http.ResponseWriter, r *http.Request) {
		if records, ok := readRecords(w, r); ok {
			c.add(records)
		}
	})
}

// counter counts what a destination takes.
type counter struct {
	done chan struct{} // closed when all records have come; sum is not changed any more

	mu    sync.Mutex
	left  int           // how many records to count; guarded by mu
	began time.Time     // when the first request had come; guarded by mu
	cpu   time.Duration // used then; guarded by mu
	sum   stint         // of the requests after the first; guarded by mu until done is closed
}

func newCounter(records int) *counter { return &counter{left: records, done: make(chan struct{})} }

// add counts a request that has come in. What comes after the last record that is
// to be counted is not.
func (c *counter) add(records int) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left <= 0 {
		return
	}
	c.left -= records
	if c.began.IsZero() {
		c.began, c.cpu = now, ownCPU()
	} else {
		c.sum.Parts++
		c.sum.Records += records
	}
	if c.left <= 0 {
		c.sum.Took, c.sum.CPU = now.Sub(c.began), ownCPU()-c.cpu
		close(c.done)
	}
}

// wait returns what has come behind the first request, once that is all: the first was
// on its way before the destination could count.
func (c *counter) wait(t *trial.T) stint {
	select {
	case <-c.done:
	case <-t.Context().Done():
		trial.Check(fmt.Errorf("waiting for the records to arrive: %w", t.Context().Err()))
	}
	if c.sum.Parts == 0 {
		trial.Check(errors.New("all records came in one request: too few to measure"))
	}
	return c.sum
}

// ownCPU is what this process has used so far, on a system that tells.
func ownCPU() time.Duration {
	cpu, _ := host.CPUTime(os.Getpid()) // bench has read that of docket
	return cpu
}
