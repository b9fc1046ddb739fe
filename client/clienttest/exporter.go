// Package clienttest is an exporter in memory, for tests of producers: it speaks
// docket stream v1, remembers what was sent, and fails on command.
//
//	e := clienttest.New()
//	defer e.Close()
//	dial := e.Dial // instead of a connection to a real exporter
//	... // let the producer send
//	err := e.Wait(ctx, 20)
//	got, wrong := e.Lines(), e.Violations()
//
// Everything a producer does against the protocol is remembered as a violation,
// so that a test sees it even where the exporter could live with it.
//
// An Exporter works in a bubble of testing/synctest when it is made there, is
// dialed and not served on a socket, and is closed before the bubble ends.
//
//	exporter.go  Exporter: what there is to see, to wait for and to tell it
//	conn.go      one connection
package clienttest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"

	"github.com/docket-export/docket/decision/stream"
)

// maxViolations bounds how many violations are remembered: a producer that goes
// wrong may do so on every line.
const maxViolations = 100

// Line is a line that is stored.
type Line struct {
	Producer string // empty when it came in plain mode
	Number   uint64 // 0 when it came in plain mode
	Text     string // without the newline and a "\r" before it
}

// Exporter is an exporter in memory. What it has stored counts as durable: it is
// known when the producer comes back. Safe for concurrent use.
type Exporter struct {
	wg sync.WaitGroup

	mu         sync.Mutex
	changed    chan struct{} // closed and replaced whenever something below changes
	closed     bool
	down       bool
	held       bool
	stalled    bool
	refuse     func(Line) (reason, detail string)
	lines      []Line
	pending    []pending
	violations []error
	producers  map[string]*producer
	conns      map[*conn]struct{}
	listeners  []net.Listener
	made       int // connections ever
}

// pending is a line that was read and is neither stored nor refused.
type pending struct {
	c    *conn
	line Line
}

// producer is what is known of the one stream of numbers that a name stands for.
type producer struct {
	acked uint64            // every line up to it is stored or refused; 0: unknown
	seen  map[uint64]string // every line that ever came
	live  *conn             // its latest connection
}

// New returns an exporter that stores and acknowledges everything at once.
func New() *Exporter {
	return &Exporter{
		changed:   make(chan struct{}),
		producers: make(map[string]*producer),
		conns:     make(map[*conn]struct{}),
	}
}

// Dial connects to the exporter through memory. A write waits there until the
// exporter has read it: there is no buffer between the two.
func (e *Exporter) Dial(ctx context.Context) (net.Conn, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	ours, theirs := net.Pipe()
	if !e.admit(ours) {
		return nil, errors.Join(fmt.Errorf("clienttest: the exporter is down: %w", syscall.ECONNREFUSED), ours.Close(), theirs.Close())
	}
	return theirs, nil
}

// Serve takes the connections of ln until the exporter or ln is closed, which is
// no error. It closes ln. While the exporter is down it closes each connection
// at once.
func (e *Exporter) Serve(ln net.Listener) error {
	e.mu.Lock()
	e.listeners = append(e.listeners, ln)
	if e.closed {
		_ = ln.Close() // it stops listening either way
	}
	e.mu.Unlock()
	for {
		nc, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("clienttest: accept: %w", err)
		}
		if !e.admit(nc) {
			nc.Close()
		}
	}
}

// admit serves nc, unless the exporter is down or closed.
func (e *Exporter) admit(nc net.Conn) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.down {
		return false
	}
	c := &conn{e: e, nc: nc}
	e.conns[c] = struct{}{}
	e.made++
	e.wg.Go(c.serve)
	e.notify()
	return true
}

// Close breaks every connection, closes the listeners, and waits for all that
// runs. What was recorded can still be read.
func (e *Exporter) Close() {
	e.change(func() {
		e.closed = true
		for _, ln := range e.listeners {
			_ = ln.Close() // it stops listening either way
		}
		e.breakAll()
	})
	e.wg.Wait()
}

// Lines are the lines stored so far, each once, in the order in which a queue
// would have them.
func (e *Exporter) Lines() []Line {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.lines)
}

// Held is how many lines were read and are neither stored nor refused, because
// of Hold.
func (e *Exporter) Held() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.pending)
}

// Violations are what producers did against the protocol, the first 100.
func (e *Exporter) Violations() []error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.violations)
}

// Connections is how many connections were ever made.
func (e *Exporter) Connections() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.made
}

// Connected is how many connections there are now.
func (e *Exporter) Connected() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.conns)
}

// Refuse makes the exporter refuse every line for which f returns a reason. f is called by one
// goroutine at a time and must not use the exporter. With nil the exporter refuses only lines that
// no exporter could store.
func (e *Exporter) Refuse(f func(Line) (reason, detail string)) {
	e.change(func() { e.refuse = f })
}

// Hold makes the exporter read on and neither store, nor refuse, nor acknowledge
// anything, until Settle or Release. What is held is lost when its connection is
// broken or replaced, and kept when the producer has closed it.
func (e *Exporter) Hold() {
	e.change(func() { e.held = true })
}

// Settle decides about the n lines held longest.
func (e *Exporter) Settle(n int) {
	e.change(func() { e.settle(n) })
}

// Release decides about all lines held, and from now on about each at once.
func (e *Exporter) Release() {
	e.change(func() {
		e.held = false
		e.settle(len(e.pending))
	})
}

// Stall makes the exporter take nothing more in, not even a hello, until Resume:
// what producers write piles up before it. Of each connection it may have read a
// buffer full already.
func (e *Exporter) Stall() {
	e.change(func() { e.stalled = true })
}

// Resume ends Stall.
func (e *Exporter) Resume() {
	e.change(func() { e.stalled = false })
}

// Down breaks every connection and refuses new ones until Up. The exporter keeps what
// it stored, so this looks like a restart of it.
func (e *Exporter) Down() {
	e.change(func() {
		e.down = true
		e.breakAll()
	})
}

// Up ends Down.
func (e *Exporter) Up() {
	e.change(func() { e.down = false })
}

// Wait waits until at least n lines are stored, or ctx is done, which is an
// error that says how many there are.
func (e *Exporter) Wait(ctx context.Context, n int) error {
	if err := e.WaitUntil(ctx, func() bool { return len(e.Lines()) >= n }); err != nil {
		return fmt.Errorf("clienttest: %d lines stored, waited for %d: %w", len(e.Lines()), n, err)
	}
	return nil
}

// WaitUntil waits until done returns true, or ctx is done. It calls done, which
// may use the exporter, again after everything that happens.
func (e *Exporter) WaitUntil(ctx context.Context, done func() bool) error {
	for {
		e.mu.Lock()
		changed := e.changed
		e.mu.Unlock()
		if done() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (e *Exporter) change(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f()
	e.notify()
}

// notify wakes everybody who waits for something, with mu held.
func (e *Exporter) notify() {
	close(e.changed)
	e.changed = make(chan struct{})
}

// await waits, with mu held, until done, which is called with mu held.
func (e *Exporter) await(done func() bool) {
	for !done() {
		changed := e.changed
		e.mu.Unlock()
		<-changed
		e.mu.Lock()
	}
}

// violation remembers what a producer did wrong, with mu held.
func (e *Exporter) violation(format string, args ...any) {
	if len(e.violations) < maxViolations {
		e.violations = append(e.violations, fmt.Errorf(format, args...))
	}
}

// breakAll breaks every connection, with mu held.
func (e *Exporter) breakAll() {
	for c := range e.conns {
		c.sever()
	}
}

// settle decides about the n lines held longest, with mu held.
func (e *Exporter) settle(n int) {
	n = min(n, len(e.pending))
	for _, p := range e.pending[:n] {
		reason, detail := flawOf(p.line.Text)
		if reason == "" && e.refuse != nil {
			reason, detail = e.refuse(p.line)
		}
		if reason == "" {
			e.lines = append(e.lines, p.line)
		}
		p.c.open--
		if p.c.producer == nil {
			continue
		}
		if reason != "" {
			p.c.out = stream.Refused{Seq: p.line.Number, Reason: reason, Detail: detail}.Append(p.c.out)
		}
		p.c.producer.acked = p.line.Number
		p.c.out = stream.Ack{Through: p.line.Number}.Append(p.c.out)
	}
	e.pending = e.pending[n:]
}
