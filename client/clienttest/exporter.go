// Package clienttest is an exporter in memory, for tests of producers: it speaks
// docket stream v1, remembers what was sent, and fails on command.
//
//	e := clienttest.New()
//	defer e.Close()
//	dial := e.Dial // instead of a connection to a real exporter
//	e.BreakAfter(10)
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
//	exporter.go   Exporter: what there is to see and to wait for
//	control.go    what it can be told to do wrong
//	conn.go       one connection: what comes
//	replies.go    one connection: what goes back
//	producer.go   what is known of a producer, and of the numbers of its lines
package clienttest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"
)

// maxViolations bounds how many violations are remembered: a producer that goes
// wrong may do so on every line.
const maxViolations = 100

// maxRecordBytes is the limit that a real exporter has by default.
const maxRecordBytes = 1 << 20

// Line is a line whose fate is decided.
type Line struct {
	Producer string // empty when it came in plain mode
	Number   uint64 // 0 when it came in plain mode
	Text     string // without the newline and a "\r" before it
	Reason   string // why it was refused; empty: it is stored
}

// Exporter is an exporter in memory. What it has stored counts as durable: it is
// known when the producer comes back. Safe for concurrent use.
type Exporter struct {
	wg sync.WaitGroup

	mu      sync.Mutex
	changed chan struct{} // closed and replaced whenever something below changes

	closed  bool
	down    bool
	held    bool
	muted   bool
	stalled bool
	refuse  func(Line) (reason, detail string)
	plans   []*plan

	lines      []Line
	refused    []Line
	pending    []pending
	violations []error
	producers  map[string]*producer
	conns      map[*conn]struct{}
	listeners  map[net.Listener]struct{}
	made       int // connections ever
}

// plan is something to do when so many lines have come.
type plan struct {
	left int
	do   func()
}

// pending is a line that was read and is neither stored nor refused.
type pending struct {
	c    *conn
	line Line
	flaw flaw // what is wrong with it by itself
}

// New returns an exporter that stores and acknowledges everything at once.
func New() *Exporter {
	return &Exporter{
		changed:   make(chan struct{}),
		producers: make(map[string]*producer),
		conns:     make(map[*conn]struct{}),
		listeners: make(map[net.Listener]struct{}),
	}
}

// Dial connects to the exporter through memory. A write waits there until the
// exporter has read it: there is no buffer between the two.
func (e *Exporter) Dial(ctx context.Context) (net.Conn, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	ours, theirs := net.Pipe()
	if err := e.admit(ours); err != nil {
		return nil, errors.Join(err, ours.Close(), theirs.Close())
	}
	return theirs, nil
}

// Serve takes the connections of ln until ln or the exporter is closed, which is
// no error. It closes ln. While the exporter is down it closes each connection
// at once; to have them refused, close the listener.
func (e *Exporter) Serve(ln net.Listener) error {
	if !e.addListener(ln) {
		return ln.Close()
	}
	defer e.removeListener(ln)
	for {
		nc, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("clienttest: accept: %w", err)
		}
		if e.admit(nc) != nil {
			nc.Close()
		}
	}
}

func (e *Exporter) addListener(ln net.Listener) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return false
	}
	e.listeners[ln] = struct{}{}
	return true
}

func (e *Exporter) removeListener(ln net.Listener) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.listeners, ln)
	_ = ln.Close() // it stops listening either way
}

// admit serves nc, unless the exporter is down or closed.
func (e *Exporter) admit(nc net.Conn) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.down {
		return fmt.Errorf("clienttest: the exporter is down: %w", syscall.ECONNREFUSED)
	}
	c := newConn(e, nc)
	e.conns[c] = struct{}{}
	e.made++
	e.wg.Go(c.serve)
	e.notify()
	return nil
}

// Close breaks every connection, closes the listeners, and waits for all that
// runs. What was recorded can still be read.
func (e *Exporter) Close() {
	e.mu.Lock()
	e.closed = true
	for ln := range e.listeners {
		_ = ln.Close() // it stops listening either way
	}
	e.breakAll()
	e.mu.Unlock()
	e.wg.Wait()
}

// Lines are the lines stored so far, each once, in the order in which a queue
// would have them.
func (e *Exporter) Lines() []Line {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.lines)
}

// Refused are the lines refused so far, with the reason.
func (e *Exporter) Refused() []Line {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.refused)
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

// notify wakes everybody who waits for something, with mu held.
func (e *Exporter) notify() {
	close(e.changed)
	e.changed = make(chan struct{})
}

// await waits, with mu held, until done, which is called with mu held, or stop
// is closed.
func (e *Exporter) await(stop <-chan struct{}, done func() bool) bool {
	for !done() {
		changed := e.changed
		e.mu.Unlock()
		select {
		case <-changed:
		case <-stop:
			e.mu.Lock()
			return false
		}
		e.mu.Lock()
	}
	return true
}

// violation remembers what a producer did wrong, with mu held.
func (e *Exporter) violation(format string, args ...any) {
	if len(e.violations) < maxViolations {
		e.violations = append(e.violations, fmt.Errorf(format, args...))
		e.notify()
	}
}
