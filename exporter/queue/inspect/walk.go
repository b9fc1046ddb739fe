package inspect

import (
	"context"
	"fmt"

	"github.com/docket-export/docket/exporter/queue/segment"
)

// walk is one pass over the log, from the first kept record to the last. It
// reads every frame with its checksums and holds one frame at a time. Its
// functions may be nil; an error of one ends the pass.
type walk struct {
	o   *Queue
	ctx context.Context

	// frame is told of every whole frame. Its bytes are valid until it returns.
	frame func(s *storedSegment, f *segment.Frame, payload []byte) error
	// hole is told of bytes that had to be frames and are not.
	hole func(s *storedSegment, h hole) error
	// gap is told of records that are missing between two segments. One of them
	// is nil when the gap is before the first or behind the last.
	gap func(r segment.SeqRange, after, before *storedSegment) error
	// tail is told where the log ends: in s, at the offset h.from. Up to h.to
	// stands what a write has left there that nobody was told about; mostly
	// there is nothing.
	tail func(s *storedSegment, h hole) error
	// unreadable is told of a segment that cannot be read from off on.
	unreadable func(s *storedSegment, off int64, err error) error
}

// hole is a range of offsets in a segment, and the records that it has taken.
type hole struct {
	from, to int64
	lost     segment.SeqRange
	cause    error
	// torn says that the bytes begin like a frame of the segment's epoch.
	torn bool
	// last says that what is behind it is torn.
	last bool
}

// run walks over the segments that may hold records from seq from on.
func (w *walk) run(from uint64) error {
	next := w.o.firstMissed()
	var before *storedSegment
	for _, s := range w.o.segments {
		if s.until <= from && !s.isLast() {
			continue
		}
		if (before != nil || s == w.o.segments[0]) && next < s.FirstSeq {
			if err := w.tellGap(segment.SeqRange{From: next, To: s.FirstSeq}, before, s); err != nil {
				return err
			}
		}
		end, _, err := w.segment(s)
		if err != nil {
			return err
		}
		before, next = s, end
	}
	if next < w.o.knownDurable {
		return w.tellGap(segment.SeqRange{From: next, To: w.o.knownDurable}, before, nil)
	}
	return nil
}

// firstMissed is the seq from which records must be there: before it they may
// have been removed.
func (o *Queue) firstMissed() uint64 {
	wanted, ok := o.firstWanted()
	switch {
	case len(o.segments) > 0 && ok:
		return min(wanted, o.segments[0].FirstSeq)
	case len(o.segments) > 0:
		return o.segments[0].FirstSeq
	case ok:
		return wanted
	}
	return max(1, o.checkpoint.NextSeq)
}

func (w *walk) tellHole(s *storedSegment, h hole) error {
	if w.hole == nil {
		return nil
	}
	return w.hole(s, h)
}

func (w *walk) tellGap(r segment.SeqRange, after, before *storedSegment) error {
	if w.gap == nil {
		return nil
	}
	return w.gap(r, after, before)
}

func (w *walk) tellUnreadable(s *storedSegment, off int64, err error) error {
	if w.unreadable == nil {
		return fmt.Errorf("segment %s: read at %d: %w", s, off, err)
	}
	return w.unreadable(s, off, err)
}
