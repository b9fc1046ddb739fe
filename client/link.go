package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/docket-export/docket/decision/stream"
)

// ErrClosed says that a client or sender takes no more lines because Close was
// called. A Log that was waiting then gets it too: its record may be stored.
var ErrClosed = errors.New("the client was closed")

// RefusedError says that the exporter did not store a line, and why.
type RefusedError struct {
	Reason string // InvalidJSON, NotObject, TooLarge or Unredactable
	Detail string // for a person; may be empty
}

func (e *RefusedError) Error() string {
	if e.Detail == "" {
		return "refused by docket: " + e.Reason
	}
	return "refused by docket: " + e.Reason + ": " + e.Detail
}

// link brings lines to the exporter: it keeps those that are not handled, and a
// connection for as long as it lives. Client and Sender are what it looks like
// from outside.
type link struct {
	linkConfig
	cancel  context.CancelFunc
	closing chan struct{} // closed when no more lines are taken
	done    chan struct{} // closed when run has ended
	wake    chan struct{} // to the writer: there may be something to write

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

// newLink makes a link that start brings to life.
func newLink(config linkConfig, box outbox) *link {
	return &link{
		linkConfig: config,
		closing:    make(chan struct{}),
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

// lose counts a record that was not taken.
func (k *link) lose(kind kind, why reason) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.loseLocked(kind, why, 1)
}

func (k *link) loseLocked(kind kind, why reason, n uint64) {
	k.losses.total[kind] += n
	if !k.closed { // else nobody is left who could tell it
		k.losses.add(kind, why, n)
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

func (k *link) ended() error {
	if k.closed {
		return ErrClosed
	}
	return k.err
}

// takeLocked takes l if there is room, with mu held.
func (k *link) takeLocked(l *line) bool {
	if !k.box.makeRoom(l, k.shed) {
		return false
	}
	k.stats.taken++
	l.cohort = k.join()
	k.enter(l)
	return true
}

// enter adds l behind all lines taken before, even beyond the limit, with mu held.
func (k *link) enter(l *line) {
	k.box.add(l)
	k.wakeWriter()
}

// shed counts a line that was dropped for a more important one.
func (k *link) shed(l *line) {
	k.loseLocked(l.kind, lostFull, 1)
	k.finish(l, ErrFull)
}

// wakeWriter wakes the writer if it waits, with mu held.
func (k *link) wakeWriter() {
	if k.idle {
		k.idle = false
		k.wake <- struct{}{} // has room: idle is set by the one who empties it
	}
}

// finish ends l, with mu held: it is out of the outbox for good.
func (k *link) finish(l *line, result error) {
	if l.result != nil {
		l.result <- result
	}
	k.leave(l.cohort)
	if l.writing {
		l.finished = true // written recycles it
		return
	}
	l.recycle()
}

// stop takes no more lines. What is not told of losses becomes the last one.
func (k *link) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.closed {
		k.closed = true
		close(k.closing)
	}
	k.rejectWaiters(ErrClosed)
	k.tellLosses()
}

// tellLosses adds a loss record, if there is anything to tell, with mu held.
func (k *link) tellLosses() {
	if l := k.losses.line(k.producer); l != nil {
		l.cohort = k.join()
		k.enter(l)
	}
}

// fail ends the link for good, with mu held.
func (k *link) fail(err error) {
	k.err = err
	k.rejectWaiters(err)
}

// end ends the connection. Nothing moves any more.
func (k *link) end() {
	k.cancel()
	<-k.done
}

// unhandled counts the lines that are not handled, and the records of callers among them. It is
// called after end.
func (k *link) unhandled() (lines, records int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tellLosses()
	k.box.numberAll()
	lines = k.box.flight.len()
	for i := range lines {
		if k.box.flight.at(i).report == nil {
			records++
		}
	}
	return lines, records
}

// disown ends the waiting for results. It is called when nothing moves any more.
func (k *link) disown() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err == nil {
		k.err = ErrClosed
	}
	k.rejectWaiters(k.err)
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
		return "docket is away: " + k.away.Error()
	case !k.stats.connected:
		return "not connected to docket yet"
	}
	return "docket has not acknowledged it yet"
}
