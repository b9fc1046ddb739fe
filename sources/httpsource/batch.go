package httpsource

import (
	"bytes"
	"context"

	"github.com/docket-export/docket/decision/rawjson"
	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/identity"
	"github.com/docket-export/docket/sources/known"
)

// Bounds of a batch. A body that fits into one is stored as a whole or not at all.
const (
	maxBatchBytes    = 1 << 20
	maxBatchEvents   = 4096
	maxBatchTooLarge = 64 // of which prefixBytes are held each
)

// batch is a number of events of one body, on their way to the committer.
type batch struct {
	lines    []byte // each event ended by "\n", with no other "\n" in it
	events   []event
	tooLarge []tooLarge
	peer     string // who sends: see package identity
	identity []byte // scratch

	// The committer's, from when it has the batch.
	through    uint64 // once this number is durable, every event of the batch is
	duplicates int
	done       chan outcome
}

type event struct {
	id    known.ID
	plain known.ID // by which a docket before peers were told apart knew it
	end   int      // of its line in lines
}

// tooLarge is an event longer than limits.maxRecordBytes.
type tooLarge struct {
	prefix []byte
	length int64
}

// outcome is what the committer did with a batch.
type outcome struct {
	through uint64 // see batch.through
	err     error  // why not all of the batch was submitted
}

// reset makes an empty batch of a peer.
func (b *batch) reset(peer string) {
	clear(b.tooLarge)
	*b = batch{
		lines: b.lines[:0], events: b.events[:0], tooLarge: b.tooLarge[:0], peer: peer, identity: b.identity,
		done: make(chan outcome, 1), // whoever waits for it may give up
	}
}

// newLargeBatch makes a batch that does not grow unless its last event is a large one.
func newLargeBatch() *batch { return &batch{lines: make([]byte, 0, maxBatchBytes+chunkBytes)} }

// isLarge reports whether b has more memory than a small body needs.
func (b *batch) isLarge() bool { return cap(b.lines) > 2*chunkBytes }

// copyTo adds what b has to another batch.
func (b *batch) copyTo(other *batch) {
	other.lines = append(other.lines, b.lines...)
	other.events = append(other.events, b.events...)
	other.tooLarge = append(other.tooLarge, b.tooLarge...)
}

func (b *batch) isEmpty() bool { return len(b.events) == 0 && len(b.tooLarge) == 0 }

func (b *batch) isFull() bool {
	return len(b.lines) >= maxBatchBytes || len(b.events) >= maxBatchEvents || len(b.tooLarge) >= maxBatchTooLarge
}

// addNext adds the next event of c. isRecord says that the intake will take it, or that it
// is only too long. The error is that of the cutter.
func (b *batch) addNext(c *cutter, p *Protocol) (isRecord bool, err error) {
	start := len(b.lines)
	lines, length, err := c.next(b.lines)
	b.lines = lines[:start] // which may have grown
	text := lines[start:]
	switch {
	case err != nil:
		return false, err
	case length > 0:
		isRecord = true
		b.tooLarge = append(b.tooLarge, tooLarge{bytes.Clone(text), length})
	default:
		isRecord = rawjson.KindOf(text) == rawjson.Object
		if p.Keep != nil && !p.Keep(text) {
			break
		}
		e := b.identify(text, p)
		lines = append(lines, '\n')
		b.lines = lines
		e.end = len(b.lines)
		b.events = append(b.events, e)
	}
	return isRecord, nil
}

// identify returns what an event is known by: its identity, among those of the peer that
// sends it. Otherwise one peer could make docket take what another sends for known.
func (b *batch) identify(text []byte, p *Protocol) event {
	b.identity = p.Identity(b.identity[:0], text)
	switch {
	case len(b.identity) == 0:
		return event{}
	case b.peer == identity.Anyone:
		return event{id: known.Of(b.identity)}
	}
	return event{id: known.OfPeer(b.peer, b.identity), plain: known.Of(b.identity)}
}

// number gives the events their numbers, and drops those that have one already.
func (b *batch) number(l *known.Log) {
	lines, events, start := b.lines[:0], b.events[:0], 0
	for _, e := range b.events {
		number, isNew := l.Add(e.id, e.plain)
		b.through = max(b.through, number)
		if isNew {
			lines = append(lines, b.lines[start:e.end]...) // which moves it to the left, if at all
			events = append(events, e)
		} else {
			b.duplicates++
		}
		start = e.end
	}
	b.lines, b.events = lines, events
	for range b.tooLarge {
		number, _ := l.Add(known.ID{})
		b.through = max(b.through, number)
	}
}

// submit hands what number has left to the session, in the order of the numbers.
func (b *batch) submit(ctx context.Context, s sources.Session) error {
	if len(b.events) > 0 {
		if err := s.Submit(ctx, b.lines); err != nil {
			return err
		}
	}
	for _, e := range b.tooLarge {
		if err := s.SubmitTooLarge(ctx, e.prefix, e.length); err != nil {
			return err
		}
	}
	return s.CountDuplicates(ctx, b.duplicates)
}

// finish tells whoever waits for the batch, which is theirs again.
func (b *batch) finish(err error) { b.done <- outcome{through: b.through, err: err} }
