package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/docket-export/docket/bench/process"
	"github.com/docket-export/docket/bench/record"
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
	process.Serve(t, d, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if records, ok := readRecords(w, r); ok {
			c.add(records)
		}
	}))
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
	cpu, _ := process.CPUTime(os.Getpid()) // bench has read that of docket
	return cpu
}

// readRecords reads the body of a request in large pieces and returns how many records it
// has; what is no body of records is answered.
func readRecords(w http.ResponseWriter, r *http.Request) (records int, ok bool) {
	buf, size := make([]byte, 64<<10), 0
	for {
		n, err := r.Body.Read(buf)
		size += n
		if errors.Is(err, io.EOF) && size%record.Bytes == 0 {
			return size / record.Bytes, true
		}
		if err != nil {
			http.Error(w, fmt.Sprintf("%d bytes are no records: %v", size, err), http.StatusBadRequest)
			return 0, false
		}
	}
}

// gate is an HTTP receiver in this process that takes everything, except while it is
// shut: then it has the requests that come wait, so that each sink has one under way
// and does nothing else. A sink in this state costs what a destination costs that does
// not answer.
type gate struct {
	address string
	came    chan time.Time // holds when the first request had come in full

	mu      sync.Mutex
	opened  chan struct{} // closed while the gate is open; guarded by mu
	waiting int           // requests that wait; guarded by mu
}

// newGate returns a gate that is open, until the measurement ends.
func newGate(t *trial.T) *gate {
	l := process.Listen("127.0.0.1:0")
	g := &gate{address: l.Addr().String(), came: make(chan time.Time, 1), opened: make(chan struct{})}
	close(g.opened)
	process.Serve(t, l, http.HandlerFunc(g.take))
	return g
}

func (g *gate) take(w http.ResponseWriter, r *http.Request) {
	if _, ok := readRecords(w, r); !ok {
		return
	}
	select {
	case g.came <- time.Now():
	default: // it is not the first
	}
	g.mu.Lock()
	opened := g.opened
	g.waiting++
	g.mu.Unlock()
	select {
	case <-opened:
	case <-r.Context().Done():
	}
	g.mu.Lock()
	g.waiting--
	g.mu.Unlock()
}

// shut has requests wait from now on.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.opened = make(chan struct{})
}

// open lets in what waits, and everything after it.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.opened)
}

// wait returns when so many requests wait.
func (g *gate) wait(t *trial.T, requests int) {
	t.Poll(fmt.Sprintf("for %d sinks to stand at a shut gate", requests), askPause, readyWait, func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.waiting == requests
	})
}
