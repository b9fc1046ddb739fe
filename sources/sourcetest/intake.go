// Package sourcetest is an Intake in memory, for tests of sources and producers
// without a queue. What it has settled counts as durable.
package sourcetest

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/docket-export/docket/sources"
)

// Line is a line that was settled.
type Line struct {
	Producer string // empty when it came in plain mode
	Number   uint64 // 0 when it came in plain mode
	Text     string
	Refused  sources.Reason // empty: stored
}

// Intake stores every object ("{...") and refuses other lines as InvalidJSON. It
// settles in the order of submission: at once, or while it is held on command.
type Intake struct {
	// OnSettle, if not nil, is called with the lines of each receipt before the
	// session hears of them. Lines known already are not among them.
	OnSettle func([]Line)

	settling sync.Mutex // one settles at a time; taken before mu
	wg       sync.WaitGroup

	mu      sync.Mutex
	changed chan struct{} // closed and replaced whenever something below changes
	held    bool
	crashed bool
	full    bool
	room    int // lines that it takes until it is full; 0: as many as come
	pending []pending
	lines   []Line
	acked   map[string]uint64
	live    map[string]*session
	known   int // lines that were recognised and not stored again
	waits   int // calls of Submit that wait because the queue is full
}

type pending struct {
	s     *session
	line  Line
	known bool
}

// New returns an intake that settles at once.
func New() *Intake {
	return &Intake{
		changed: make(chan struct{}),
		acked:   make(map[string]uint64),
		live:    make(map[string]*session),
	}
}

// Restore adds lines that were durable before.
func (in *Intake) Restore(lines []Line) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.lines = append(in.lines, lines...)
	for _, l := range lines {
		in.acked[l.Producer] = max(in.acked[l.Producer], l.Number)
	}
}

// Stored is sources.Env.Stored of a source whose intake this is.
func (in *Intake) Stored(_ context.Context, visit func(producer string, record []byte)) error {
	for _, l := range in.Lines() {
		if l.Refused == "" {
			visit(l.Producer, []byte(l.Text))
		}
	}
	return nil
}

// Hold stops settling until Release.
func (in *Intake) Hold() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.held = true
}

// Release settles what is pending, and from now on everything at once.
func (in *Intake) Release() {
	in.mu.Lock()
	in.held = false
	in.mu.Unlock()
	in.Settle(-1)
}

// Settle settles the next n lines, with one receipt for each run of lines of one
// session; all of them, until it is held, if n is negative.
func (in *Intake) Settle(n int) {
	in.settling.Lock()
	defer in.settling.Unlock()
	for n != 0 {
		s, receipt, lines := in.take(n)
		if s == nil {
			return
		}
		n -= receipt.Lines
		if in.OnSettle != nil && len(lines) > 0 {
			in.OnSettle(lines)
		}
		in.update(func() {
			in.lines = append(in.lines, lines...)
			if s.o.Producer != "" {
				in.acked[s.o.Producer] = receipt.Through
			}
		})
		if s.o.Settled != nil { // after the lines are there for a test to see
			s.o.Settled(receipt)
		}
		in.update(func() { s.open -= receipt.Lines })
	}
}

// take removes the next run of pending lines, at most n if n is positive.
func (in *Intake) take(n int) (s *session, r sources.Receipt, lines []Line) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.pending) == 0 || n < 0 && in.held { // held since this settling began
		return nil, r, nil
	}
	s = in.pending[0].s
	r.Through = in.acked[s.o.Producer]
	for len(in.pending) > 0 && in.pending[0].s == s && r.Lines != n {
		p := in.pending[0]
		in.pending = in.pending[1:]
		r.Lines++
		r.Through = max(r.Through, p.line.Number)
		if p.known {
			in.known++
			continue
		}
		if p.line.Refused != "" {
			r.Refused = append(r.Refused, sources.Refusal{Number: p.line.Number, Reason: p.line.Refused, Detail: "refused by the test"})
		}
		lines = append(lines, p.line)
	}
	return s, r, lines
}

// Fill makes the queue full: from now on Submit waits, until Drain.
func (in *Intake) Fill() { in.update(func() { in.full = true }) }

// FillAfter is Fill once n lines more were taken, in the same moment.
func (in *Intake) FillAfter(n int) { in.update(func() { in.room = n }) }

// Waiting is the number of calls of Submit that wait because the queue is full.
func (in *Intake) Waiting() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.waits
}

// Drain undoes Fill.
func (in *Intake) Drain() { in.update(func() { in.full = false }) }

// Crash forgets what is not settled and fails every call from now on.
func (in *Intake) Crash() {
	in.update(func() { in.crashed, in.pending = true, nil })
}

// Close waits for the goroutines of the intake.
func (in *Intake) Close() { in.wg.Wait() }

// Lines are the lines settled so far.
func (in *Intake) Lines() []Line {
	in.mu.Lock()
	defer in.mu.Unlock()
	return append([]Line(nil), in.lines...)
}

// Pending is the number of lines submitted and not settled.
func (in *Intake) Pending() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.pending)
}

// Known is the number of lines recognised as duplicates, here or by their source.
func (in *Intake) Known() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.known
}

// Wait waits until done, which is called without a lock, or ctx is done.
func (in *Intake) Wait(ctx context.Context, done func() bool) error {
	for {
		in.mu.Lock()
		changed := in.changed
		in.mu.Unlock()
		if done() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (in *Intake) update(change func()) {
	in.mu.Lock()
	defer in.mu.Unlock()
	change()
	close(in.changed)
	in.changed = make(chan struct{})
}

// ErrCrashed is the error of every call after Crash.
var ErrCrashed = errors.New("the intake has crashed")

// Open is the method of sources.Intake.
func (in *Intake) Open(ctx context.Context, o sources.Opening) (sources.Session, uint64, error) {
	s := &session{in: in, o: o, next: o.Next}
	for o.Producer != "" {
		in.mu.Lock()
		older := in.live[o.Producer]
		if older == nil {
			in.live[o.Producer] = s
		}
		in.mu.Unlock()
		if older == nil {
			break
		}
		older.o.Evict()
		if err := in.Wait(ctx, func() bool { return older.gone() }); err != nil {
			return nil, 0, err
		}
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.crashed {
		return nil, 0, ErrCrashed
	}
	return s, in.acked[o.Producer], nil
}

type session struct {
	in     *Intake
	o      sources.Opening
	next   uint64
	open   int // lines not settled; guarded by in.mu
	closed bool
}

// gone reports whether the session has ended and its lines are decided. If so it
// makes way for the next session of the producer.
func (s *session) gone() bool {
	s.in.mu.Lock()
	defer s.in.mu.Unlock()
	gone := s.closed && s.open == 0 || s.in.crashed
	if gone && s.in.live[s.o.Producer] == s {
		delete(s.in.live, s.o.Producer)
	}
	return gone
}

func (s *session) Submit(ctx context.Context, lines []byte) error {
	if !bytes.HasSuffix(lines, []byte("\n")) {
		return errors.New("sourcetest: lines do not end with a newline")
	}
	var texts []string
	for line := range bytes.Lines(lines) {
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		if len(bytes.TrimSpace(line)) > 0 {
			texts = append(texts, string(line))
		}
	}
	clear(lines) // the session may overwrite them
	return s.submit(ctx, texts, "")
}

func (s *session) SubmitTooLarge(ctx context.Context, prefix []byte, length int64) error {
	return s.submit(ctx, []string{string(prefix)}, sources.TooLarge)
}

// CountDuplicates counts at once: what it counts is durable.
func (s *session) CountDuplicates(ctx context.Context, lines int) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.in.update(func() { s.in.known += lines })
	return nil
}

func (s *session) submit(ctx context.Context, texts []string, refused sources.Reason) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for {
		taken, err := s.take(texts, refused)
		if taken || err != nil {
			return err
		}
		s.in.update(func() { s.in.waits++ })
		err = s.in.Wait(ctx, func() bool {
			s.in.mu.Lock()
			defer s.in.mu.Unlock()
			return s.in.crashed || !s.in.full
		})
		s.in.update(func() { s.in.waits-- })
		if err != nil {
			return context.Cause(ctx)
		}
	}
}

// take takes lines, unless the queue is full.
func (s *session) take(texts []string, refused sources.Reason) (taken bool, err error) {
	crashed, held, full := false, false, false
	s.in.update(func() {
		if crashed, held, full = s.in.crashed, s.in.held, s.in.full; crashed || full {
			return
		}
		for _, text := range texts {
			p := pending{s: s, line: Line{Producer: s.o.Producer, Number: s.next, Text: text, Refused: refused}}
			if refused == "" && !strings.HasPrefix(strings.TrimSpace(text), "{") {
				p.line.Refused = sources.InvalidJSON
			}
			if s.next > 0 {
				p.known = s.next <= s.in.acked[s.o.Producer]
				s.next++
			}
			s.in.pending = append(s.in.pending, p)
			s.open++
		}
		if room := s.in.room; room > 0 && room <= len(texts) {
			s.in.full, s.in.room = true, 0
		} else if room > 0 {
			s.in.room -= len(texts)
		}
	})
	switch {
	case crashed:
		return false, ErrCrashed
	case !full && !held:
		s.in.wg.Go(func() { s.in.Settle(-1) })
	}
	return !full, nil
}

func (s *session) Settle(ctx context.Context) error {
	crashed := false
	err := s.in.Wait(ctx, func() bool {
		s.in.mu.Lock()
		defer s.in.mu.Unlock()
		crashed = s.in.crashed
		return s.open == 0 || crashed
	})
	if err == nil && crashed {
		return ErrCrashed
	}
	return err
}

func (s *session) Close() {
	s.in.update(func() { s.closed = true })
}
