package httpsource

import (
	"bytes"
	"context"

	"github.com/docket-export/docket/decision/rawjson"
	"github.com/docket-export/docket/sources"
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
	peer     peerKey
	identity []byte // scratch

	duplicates int // the committer's, from when it has the batch
	done       chan outcome
}

type event struct {
	id  id
	end int // of its line in lines
}

// tooLarge is an event longer than limits.maxRecordBytes.
type tooLarge struct {
	prefix []byte
	length int64
}

// outcome is what the committer did with a batch: once the number through is durable, every
// event of the batch is.
type outcome struct {
	stream  *stream
	through uint64
	err     error // why not all of the batch was submitted
}

func newBatch(peer peerKey) *batch {
	return &batch{peer: peer, done: make(chan outcome, 1)} // whoever waits for it may give up
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
		b.identity = p.Identity(b.identity[:0], text)
		e := event{id: idOf(b.peer, b.identity)}
		lines = append(lines, '\n')
		b.lines = lines
		e.end = len(b.lines)
		b.events = append(b.events, e)
	}
	return isRecord, nil
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
