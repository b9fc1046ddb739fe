package inspect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/internal/disk"
)

// walk is one pass over the log, from the first kept record to the last, with all
// checksums. An error of visit or unreadable ends it.
type walk struct {
	o    *Queue
	ctx  context.Context
	from uint64 // what was given to run
	// visit is told of every item, with its segment, nil behind a log without one, and for
	// a gap with the segment before it, nil for the first.
	visit func(s, before *segment.Stored, it *segment.Item) error
	// unreadable is told of a segment that cannot be read from off on. nil: that is an error.
	unreadable func(s *segment.Stored, off int64, err error) error
	// gone is told of records that were removed meanwhile. nil: that is an error.
	gone func(segment.SeqRange) error
	// at is where to begin, and where the last frame was that visit was told of; nil: with
	// the first of a segment.
	at *Place
}

// Place is a frame of the log, at which reading continues. The zero value is no
// frame.
type Place struct {
	epoch uint64 // of its segment
	off   int64
	seq   uint64 // of its first record
}

// run walks over the segments that may hold records from seq from on.
func (w *walk) run(from uint64) error {
	next := w.o.firstMissed()
	w.o.toRead.Store(0)
	for _, s := range w.o.found.Segments {
		w.o.toRead.Add(s.Size)
	}
	var before *segment.Stored
	passedBytes := int64(0)
	for _, s := range w.o.found.Segments {
		w.o.read.Store(passedBytes)
		passedBytes += s.Size
		if s.Until <= from && !s.IsLast() {
			continue
		}
		passed := uint64(0) // what is before was not looked at
		if before != nil || s == w.o.found.Segments[0] {
			passed = next
		}
		end, _, err := w.segment(s, before, passed)
		if err != nil {
			return err
		}
		before, next = s, end
	}
	w.o.read.Store(passedBytes)
	if len(w.o.found.Segments) == 0 && next < w.o.found.KnownDurable {
		return w.visit(nil, nil, &segment.Item{Kind: segment.IsGap, Lost: segment.SeqRange{From: next, To: w.o.found.KnownDurable}, AtEnd: true})
	}
	return nil
}

// firstMissed is the seq from which records must be there: before it they may
// have been removed.
func (o *Queue) firstMissed() uint64 {
	wanted, ok := o.firstWanted()
	switch {
	case len(o.found.Segments) > 0 && ok:
		return min(wanted, o.found.Segments[0].FirstSeq)
	case len(o.found.Segments) > 0:
		return o.found.Segments[0].FirstSeq
	case ok:
		return wanted
	}
	return max(1, o.found.Checkpoint.NextSeq)
}

// segment walks over one segment, and returns the seq after its last record and
// the offset after its last frame. passed is the seq after the one before it.
func (w *walk) segment(s, before *segment.Stored, passed uint64) (next uint64, end int64, err error) {
	scan := &segment.Scan{
		Stored: s, Records: true, KnownDurable: w.o.found.KnownDurable,
		From: segment.HeaderSize, Next: s.FirstSeq, Passed: passed,
	}
	if p := w.at; p != nil && p.epoch == s.Epoch && p.seq <= w.from {
		scan.From, scan.Next, scan.Passed = p.off, p.seq, max(passed, p.seq)
	}
	var stopped error // what visit has said
	var file disk.File
	if err = s.OpenErr; err == nil {
		file, err = w.o.fsys.Open(w.o.path(s.String()))
	}
	if err == nil {
		defer file.Close()
		scan.File = file
		err = scan.Run(func(it *segment.Item) error {
			w.o.read.Add(it.To - it.From)
			if w.at != nil && it.Kind == segment.IsFrame {
				*w.at = Place{s.Epoch, it.From, it.Frame.FirstSeq}
			}
			if w.ctx.Err() != nil {
				stopped = context.Cause(w.ctx)
			} else if w.visit != nil {
				stopped = w.visit(s, before, it)
			}
			return stopped
		})
	}
	switch {
	case stopped != nil:
		return scan.Next, scan.Off, stopped
	case err == nil:
		return scan.Next, scan.Off, nil
	case errors.Is(err, fs.ErrNotExist) && w.gone != nil: // it was removed meanwhile
		return s.Until, scan.Off, w.gone(segment.SeqRange{From: scan.Next, To: s.Until})
	case w.unreadable == nil:
		return s.Until, scan.Off, fmt.Errorf("segment %s: read at %d: %w", s, scan.Off, err)
	}
	return s.Until, scan.Off, w.unreadable(s, scan.Off, err)
}
