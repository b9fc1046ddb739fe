package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/docket-export/docket/decision/stream"
)

// ErrClosed says that a client or sender takes no more lines because Close was
// called. A Log that was waiting then gets it too: its record may be stored, or
// be in the spill file.
var ErrClosed = errors.New("the client was closed")

// RefusedError says that the exporter did not store a line, and why.
type RefusedError struct {
	Reason string // InvalidJSON, NotObject, TooLarge or QueueFull
	Detail string // for a person; may be empty
}

func (e *RefusedError) Error() string {
	if e.Detail == "" {
		return "refused by the exporter: " + e.Reason
	}
	return "refused by the exporter: " + e.Reason + ": " + e.Detail
}

// link brings lines to the exporter: it keeps those that are not handled, and a
// connection for as long as it lives. Client and Sender are what it looks like
// from outside.
type link struct {
	linkConfig
	cancel context.CancelFunc
	done   chan struct{} // closed when run has ended
	wake   chan struct{} // to the writer: there may be something to write

	mu      sync.Mutex
	box     outbox         // guarded by mu, as all below
	waiters deque[*waiter] // for room; the first is let in first
	waiting []int          // of them, by rank
	cohorts []*cohort      // that flush waits for, and last the one of new lines
	idle    bool           // the writer waits for wake
	closed  bool           // no more lines are taken
	err     error          // why the link has ended, for ever
	losses  losses         // lines that were dropped, and what was told of them
	away    error          // why there is no connection; nil: there is one, or no attempt has failed
	stolen  bool           // somebody else sends under our name
	met     bool           // an exporter has answered once
	base    uint64         // number on the wire less the number that callers know
	stats   linkStats
}

// linkConfig is what a link is made of. The callbacks are called one at a time,
// without mu held.
type linkConfig struct {
	dial     Dial
	producer string
	// acked is told that the first n lines of this link are handled, before
	// flush returns.
	acked   func(n uint64)
	refused func(stream.Refused)
	// lost is told that a loss record is handled.
	lost         func()
	connected    func(forgotten uint64)
	disconnected func(err error, wait time.Duration)
}

type linkStats struct {
	taken, stored, refused, connections, forgotten uint64
	connected                                      bool
}

// waiter is a line for which there was no room.
type waiter struct {
	line   *line      // nil when it waits no more
	result chan error // room for one: nil when the line is taken
}

// newLink makes a link that start brings to life.
func newLink(config linkConfig, box outbox) *link {
	return &link{
		linkConfig: config,
		done:       make(chan struct{}),
		wake:       make(chan struct{}, 1),
		box:        box,
		waiting:    make([]int, box.ranks()),
		cohorts:    []*cohort{{}},
	}
}

func (k *link) start() {
	ctx, cancel := context.WithCancel(context.Background())
	k.cancel = cancel
	go k.run(ctx)
}

// checkLine returns an error for a line that has no place in the protocol.
func checkLine(text []byte) error {
	switch {
	case bytes.IndexByte(text, '\n') >= 0:
		return errors.New("line has a newline in it")
	case len(bytes.TrimSpace(text)) == 0:
		return errors.New("line is blank")
	case stream.IsHello(text):
		return errors.New("line is a hello of the stream protocol, not a record")
	}
	return nil
}

var errTooLarge = errors.New("does not fit into the buffer")

// fits returns an error when there can never be room for l.
func (k *link) fits(l *line) error {
	if l.size() > k.box.limit {
		return fmt.Errorf("line of %d bytes %w of %d", len(l.text), errTooLarge, k.box.limit)
	}
	return nil
}

// tryTake takes l if there is room, for which it drops what matters less. When
// it does not, l is counted as lost.
func (k *link) tryTake(l *line) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	err := k.ended()
	if err == nil {
		if !k.yields(l) && k.takeLocked(l) {
			return nil
		}
		err = ErrFull
	}
	k.loseLocked(l.kind, whyLost(err))
	return err
}

// yields reports whether room belongs to lines that wait for it and matter as
// much as l, with mu held. What l can get by dropping others is its own.
func (k *link) yields(l *line) bool {
	for _, n := range k.waiting[:l.rank+1] {
		if n > 0 {
			return k.box.below(l.rank) == 0
		}
	}
	return false
}

// lose counts a record that was not taken.
func (k *link) lose(kind kind, why reason) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.loseLocked(kind, why)
}

func (k *link) loseLocked(kind kind, why reason) {
	k.losses.total[kind]++
	if !k.closed { // else nobody is left who could tell it
		k.losses.add(kind, why)
		k.wakeWriter()
	}
}

// whyLost is the reason for which a record was not taken, by the error.
func whyLost(err error) reason {
	switch {
	case errors.Is(err, ErrFull):
		return lostFull
	case errors.Is(err, errTooLarge):
		return lostTooLarge
	}
	return lostClosed
}

func (k *link) lostRecords() (n uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, lost := range k.losses.total {
		n += lost
	}
	return n
}

// take takes l, for which it waits for room, until ctx is done: that is ErrFull.
// An error says that it was not taken. Once taken it is not dropped for another
// line.
func (k *link) take(ctx context.Context, l *line) error {
	l.keep = true
	k.mu.Lock()
	if err := k.ended(); err != nil {
		k.mu.Unlock()
		return err
	}
	if !k.yields(l) && k.takeLocked(l) {
		k.mu.Unlock()
		return nil
	}
	w := &waiter{line: l, result: make(chan error, 1)}
	k.waiters.pushBack(w)
	k.waiting[l.rank]++
	k.mu.Unlock()

	select {
	case err := <-w.result:
		return err
	case <-ctx.Done():
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if w.line == nil { // it was let in, or turned away, at the same moment
		return <-w.result
	}
	k.waiting[l.rank]--
	w.line = nil
	k.letIn() // the next may be smaller
	return fmt.Errorf("%w: %w", ErrFull, ending(ctx))
}

// ending is why ctx is done: its cause, which may not say that it was a deadline.
func ending(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, ctx.Err()) {
		return cause
	}
	return fmt.Errorf("%w: %w", ctx.Err(), cause)
}

func (k *link) ended() error {
	if k.closed {
		return ErrClosed
	}
	return k.err
}

// takeLocked takes l if there is room, with mu held.
func (k *link) takeLocked(l *line) bool {
	if !k.box.take(l, k.shed) {
		return false
	}
	k.stats.taken++
	k.join(l)
	k.wakeWriter()
	return true
}

// join adds l to those that the next flush waits for.
func (k *link) join(l *line) {
	l.batch = k.cohorts[len(k.cohorts)-1]
	l.batch.open++
}

// shed counts a line that was dropped for a more important one.
func (k *link) shed(l *line) {
	k.loseLocked(l.kind, lostFull)
	k.finish(l, ErrFull)
}

// wakeWriter wakes the writer if it waits, with mu held.
func (k *link) wakeWriter() {
	if k.idle {
		k.idle = false
		k.wake <- struct{}{} // has room: idle is set by the one who empties it
	}
}

// letIn takes the lines that wait for room, as far as there is, with mu held.
func (k *link) letIn() {
	for k.waiters.len() > 0 {
		w := k.waiters.at(0)
		if w.line != nil {
			if !k.takeLocked(w.line) {
				return
			}
			k.waiting[w.line.rank]--
			w.line = nil
			w.result <- nil
		}
		k.waiters.popFront()
	}
}

// finish ends l, with mu held: it is out of the outbox for good.
func (k *link) finish(l *line, result error) {
	if l.result != nil {
		l.result <- result
	}
	k.leave(l.batch)
	if l.writing {
		l.finished = true // written recycles it
		return
	}
	l.recycle()
}

// leave counts a line of c as finished, with mu held.
func (k *link) leave(c *cohort) {
	c.open--
	if c.open > 0 || c.flushed == nil {
		return
	}
	close(c.flushed)
	k.cohorts = slices.DeleteFunc(k.cohorts, func(o *cohort) bool { return o == c })
}

// flush waits until every line taken before is finished.
func (k *link) flush(ctx context.Context) error {
	for _, flushed := range k.unfinished() {
		select {
		case <-flushed:
		case <-k.done:
			return k.whyUnfinished(flushed)
		case <-ctx.Done():
			return ending(ctx)
		}
	}
	return nil
}

// unfinished returns what will be closed when every line taken before is
// finished.
func (k *link) unfinished() (flushed []<-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c := k.cohorts[len(k.cohorts)-1]; c.open > 0 {
		c.flushed = make(chan struct{})
		k.cohorts = append(k.cohorts, &cohort{})
	}
	for _, c := range k.cohorts[:len(k.cohorts)-1] {
		flushed = append(flushed, c.flushed)
	}
	return flushed
}

// whyUnfinished is why a line is not finished although the link has ended.
func (k *link) whyUnfinished(flushed <-chan struct{}) error {
	select {
	case <-flushed:
		return nil
	default:
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err
}

// stop takes no more lines. What is not told of losses becomes the last one.
func (k *link) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	k.turnAway(ErrClosed)
	k.tellLosses()
}

// tellLosses adds a loss record, if there is anything to tell, with mu held.
func (k *link) tellLosses() {
	if l := k.losses.line(k.producer); l != nil {
		k.join(l)
		k.box.add(l)
		k.wakeWriter()
	}
}

// turnAway ends the waiting for room, with mu held.
func (k *link) turnAway(err error) {
	for k.waiters.len() > 0 {
		if w := k.waiters.popFront(); w.line != nil {
			k.waiting[w.line.rank]--
			w.line = nil
			w.result <- err
		}
	}
}

// fail ends the link for good, with mu held.
func (k *link) fail(err error) {
	k.err = err
	k.turnAway(err)
}

// end ends the connection. Nothing moves any more.
func (k *link) end() {
	k.cancel()
	<-k.done
}

// resume begins with what an earlier link has left. It is called before start.
func (k *link) resume(r remains) {
	k.box.first = r.next
	for _, l := range r.lines {
		k.join(l)
		k.box.add(l)
		if l.report != nil {
			k.losses.saying++
		}
	}
	k.box.numberAll() // each may have been sent
}

// remains returns what is left. It is called after end, and then once.
func (k *link) remains() remains {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tellLosses()
	k.box.numberAll()
	r := remains{producer: k.producer, next: k.box.first}
	if k.stolen { // what the exporter knows under that name are not our lines
		r.producer, r.next = randomID(), 1
	}
	for i := range k.box.flight.len() {
		r.lines = append(r.lines, k.box.flight.at(i))
	}
	return r
}

// disown ends the waiting for results. It is called when nothing moves any more.
func (k *link) disown() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err == nil {
		k.err = ErrClosed
	}
	k.turnAway(k.err)
	k.box.numberAll()
	for i := range k.box.flight.len() {
		if l := k.box.flight.at(i); l.result != nil {
			l.result <- k.err
			l.result = nil
		}
	}
}

// why says for a person what a line waits for.
func (k *link) why() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case !k.stats.connected && k.away != nil:
		return "the exporter is away: " + k.away.Error()
	case !k.stats.connected:
		return "not connected to the exporter yet"
	}
	return "the exporter has not acknowledged it yet"
}
