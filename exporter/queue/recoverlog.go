package queue

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
)

// foldLog adds the frames since the checkpoint to its state, and finds the end
// of the log.
func (r *recovery) foldLog() error {
	q := r.q
	q.state = state.New(q.opts.Producers)
	q.state.Producers.Fold()
	var next uint64 = 1
	if r.hasCheck {
		q.state.Totals, next = r.checkpoint.Clone(), r.checkpoint.NextSeq
		q.state.Producers.Restore(r.checkpoint.Producers, r.checkpoint.Legacy)
	} else if len(r.segments) > 0 {
		next = r.segments[0].FirstSeq
	} else {
		next = max(next, r.oldestCursor()) // what was before is done with
	}
	for i, s := range r.segments {
		last := i == len(r.segments)-1
		if !last && r.isCounted(s, s.end.Load()) {
			continue
		}
		if !r.isCounted(s, segment.HeaderSize) {
			q.reportLost(SeqRange{From: next, To: s.FirstSeq})
		}
		fold := r.foldSegment
		if last {
			fold = r.foldLast
		}
		end, err := fold(s)
		if err != nil {
			return fmt.Errorf("segment %s: %w", s, err)
		}
		next = max(next, end)
	}
	if r.tailRecords == 0 {
		// What was durable once has had its seq, which must not be given out
		// again, whatever has become of the log. Records of the tail are beyond it.
		q.reportLost(SeqRange{From: next, To: r.knownDurable})
		next = max(next, r.knownDurable)
	}
	q.durable.Store(next - 1)
	q.state.Producers.Resume(max(r.newest, r.checkpoint.Newest, r.checkpoint.Written), time.Now())
	if n := len(r.segments); n > 0 {
		// Nothing is ever added to the segments found, so that all of them can go
		// as soon as they are delivered.
		q.checkpointUpTo(r.segments[n-1].liveSegment)
	}
	return nil
}

// oldestCursor is the first seq that a sink still waits for, 0 without any sink.
func (r *recovery) oldestCursor() (oldest uint64) {
	for _, a := range r.accounts {
		if oldest == 0 || a.Next < oldest {
			oldest = a.Next
		}
	}
	return oldest
}

// findUncopied marks the segments that have lost records of which quarantine has
// no copy: a process before could not make one, and the segment must go there.
func (r *recovery) findUncopied() error {
	q := r.q
	if len(q.state.Lost) == 0 {
		return nil
	}
	copies, err := q.opts.FS.List(q.path(state.QuarantineDir))
	if err != nil && !state.NotExist(err) {
		return fmt.Errorf("list %s: %w", state.QuarantineDir, err)
	}
	for _, s := range r.segments {
		lost := slices.ContainsFunc(q.state.Lost, func(l SeqRange) bool {
			return l.From < s.until.Load() && l.To > s.FirstSeq
		})
		copied := slices.ContainsFunc(copies, func(name string) bool { return strings.HasPrefix(name, s.String()+".") })
		s.unreadable.Store(s.unreadable.Load() || lost && !copied)
	}
	return nil
}

// isCounted reports whether the checkpoint holds what s adds up to until off.
func (r *recovery) isCounted(s *foundSegment, off int64) bool {
	c := r.checkpoint
	return r.hasCheck && (s.Epoch < c.Epoch || s.Epoch == c.Epoch && off <= c.End)
}

// foldSegment adds the frames of s, which has a successor, to the state, unless the
// checkpoint has them, and returns the seq after its last record. Where a header is
// whole, its records are not looked at before they are delivered.
func (r *recovery) foldSegment(s *foundSegment) (uint64, error) {
	file, err := r.q.opts.FS.Open(r.q.path(s.String()))
	if err != nil {
		return 0, err
	}
	defer file.Close()
	from, next := r.behindCheckpoint(s)
	d := folding{foundSegment: s, r: r, file: file, next: next}
	end := s.end.Load()
	var reader segment.Reader
	reader.OpenHeaders(file, s.Epoch, from, end)
	for {
		hole := reader.Off
		f, err := reader.ResyncHeader(d.next, end)
		if errors.Is(err, io.EOF) || (err == nil && !s.exact && f.FirstSeq >= s.until.Load()) {
			return d.next, nil
		}
		if err != nil {
			return 0, err
		}
		d.fold(&foundFrame{Frame: f, hole: hole, off: reader.Off})
		reader.Skip(&f)
	}
}

// folding adds the frames of one segment to the state, in order.
type folding struct {
	*foundSegment
	r    *recovery
	file disk.File
	next uint64 // the seq after the last record that was added
}

// foundFrame is a frame at offset off. If that is not hole, where the one before it
// ends, what lies between is damage.
type foundFrame struct {
	segment.Frame
	hole, off int64
}

// fold adds f to the state, unless the checkpoint has it.
func (d *folding) fold(f *foundFrame) {
	d.missing(f)
	if !d.isCounted(f) {
		d.r.q.state.Add(&f.Frame, f.Decided())
	}
	d.next = max(d.next, f.End())
}

func (d *folding) isCounted(f *foundFrame) bool {
	return d.r.isCounted(d.foundSegment, f.off+int64(f.Size()))
}

// missing reports what is missing before f, whose first record is the next then.
func (d *folding) missing(f *foundFrame) {
	if f.off > f.hole {
		d.r.q.quarantine(d.liveSegment, d.file, f.hole, f.off, segment.ErrFrameHeader)
	}
	d.r.q.reportLost(SeqRange{From: d.next, To: f.FirstSeq})
	d.next = max(d.next, f.FirstSeq)
}

// behindCheckpoint returns the offset in s from which on the checkpoint does not know it,
// and the seq that comes there. A queue that was closed has nothing to read at its next
// start.
//
// A frame behind it may have no records and a lower seq: it was the tail of a log that
// had lost its end, for which that seq was raised.
func (r *recovery) behindCheckpoint(s *foundSegment) (off int64, next uint64) {
	if c := r.checkpoint; r.hasCheck && c.Epoch == s.Epoch && c.End <= s.size.Load() {
		return max(c.End, segment.HeaderSize), max(c.NextSeq, s.FirstSeq)
	}
	return segment.HeaderSize, s.FirstSeq
}
