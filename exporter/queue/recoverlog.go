package queue

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
)

// foldLog adds the frames since the checkpoint to its state, and finds the end
// of the log.
func (r *recovery) foldLog() error {
	q := r.q
	q.state = state.New(q.opts.Producers)
	var next uint64 = 1
	if r.HasCheckpoint {
		q.state.Restore(&r.Checkpoint)
		next = r.Checkpoint.NextSeq
	} else if len(r.segments) > 0 {
		next = r.segments[0].FirstSeq
	} else {
		next = max(next, r.oldestCursor()) // what was before is done with
	}
	for _, s := range r.segments {
		if !s.IsLast() && r.isCounted(s, s.End) {
			continue
		}
		var err error
		if next, err = r.foldSegment(s, next); err != nil {
			return fmt.Errorf("segment %s: %w", s, err)
		}
	}
	switch {
	case r.tail > 0:
		next = r.tail
	case len(r.segments) == 0:
		q.reportLost(segment.SeqRange{From: next, To: r.KnownDurable})
		fallthrough
	default:
		// What was durable once has had its seq, which must not be given out again.
		next = max(next, r.KnownDurable)
	}
	q.durable.Store(next - 1)
	q.lineage = r.Lineage.Begin(uuid.NewString(), next+r.tailRecords)
	q.state.Producers.Resume(max(r.newest, r.Checkpoint.Newest, r.Checkpoint.Written), time.Now())
	if n := len(r.segments); n > 0 {
		// Nothing is ever added to the segments found, so that all of them can go
		// as soon as they are delivered.
		q.checkpointUpTo(r.segments[n-1].live)
	}
	return nil
}

var errLostEnd = errors.New("the log ends before records that were durable")

// foldSegment adds the frames of s to the state, unless the checkpoint has them, and
// returns the seq after its last durable record. next is that of the segment before.
//
// Frames at the end of the log may be whole and yet never synced, and a sync now could
// say yes although one before the crash has failed and dropped them. They become the
// committer's first commit, and are written again elsewhere.
func (r *recovery) foldSegment(s *foundSegment, next uint64) (uint64, error) {
	q, live := r.q, s.live
	file, err := q.opts.FS.Open(q.path(s.String()))
	if err != nil {
		return 0, err
	}
	defer file.Close()
	scan := r.scanBehindCheckpoint(s, file)
	scan.Passed = next
	if s.IsLast() {
		live.end.Store(scan.From)
		if r.isCounted(s, scan.From) {
			live.newest.Store(r.Checkpoint.Newest)
		}
	}
	err = scan.Run(func(it *segment.Item) error {
		switch it.Kind {
		case segment.IsFrame:
			if !it.Synced {
				r.rewrite(it)
				return nil
			}
			if !r.isCounted(s, it.To) {
				q.state.Add(&it.Frame, it.Frame.Decided())
			}
			if s.IsLast() {
				live.end.Store(it.To)
				live.newest.Store(max(live.newest.Load(), it.Frame.Received))
			}
		case segment.IsHole:
			if it.To > it.From {
				q.meetDamage(live, it.From, it.To, it.Cause)
			}
			q.reportLost(it.Lost)
		case segment.IsGap:
			if it.AtEnd && live.end.Load() < s.Size { // the rest may be what is left of the end
				q.meetDamage(live, live.end.Load(), s.Size, errLostEnd)
			}
			q.reportLost(it.Lost)
		case segment.IsTail:
			q.pending.buf = it.Bytes
			if it.To > it.From {
				r.cutTail(live, file, it)
			}
		}
		return nil
	})
	if s.IsLast() {
		r.newest = scan.Received
	}
	return max(next, scan.Next), err
}

// scanBehindCheckpoint returns the scan of what the checkpoint does not know of s. A queue
// that was closed has nothing to read at its next start.
//
// A frame behind it may have no records and a lower seq: it was the tail of a log that
// had lost its end, for which that seq was raised.
func (r *recovery) scanBehindCheckpoint(s *foundSegment, file disk.File) *segment.Scan {
	scan := &segment.Scan{Stored: s.Stored, File: file, KnownDurable: r.KnownDurable, From: segment.HeaderSize, Next: s.FirstSeq}
	if c := r.Checkpoint; r.HasCheckpoint && c.Epoch == s.Epoch {
		scan.Counted = c.End
		if c.End <= s.Size {
			scan.From, scan.Next = max(c.End, segment.HeaderSize), max(c.NextSeq, s.FirstSeq)
		}
	} else if r.HasCheckpoint && s.Epoch < c.Epoch {
		scan.Counted = s.Size
	}
	return scan
}

// rewrite gives a frame of the end to the committer, whose bytes come with the tail.
func (r *recovery) rewrite(it *segment.Item) {
	if r.tail == 0 && it.Frame.Count > 0 {
		r.tail = it.Frame.FirstSeq
	}
	r.tailRecords += uint64(it.Frame.Count)
	p := r.q.pending
	p.frames = append(p.frames, pendingFrame{at: r.tailBytes, lines: it.Frame.Decided()})
	r.tailBytes += len(it.Bytes)
}

// cutTail drops what a crash left unfinished. What looks like frames is kept in
// quarantine, although it was never acknowledged.
func (r *recovery) cutTail(s *liveSegment, file disk.File, it *segment.Item) {
	q := r.q
	q.tornTails++
	q.opts.Log.Info("torn tail cut: a crash interrupted a write that was not acknowledged", "segment", s.String(), "from", it.From, "to", it.To)
	if err := q.quarantine.copyTail(s.Name, file, it.From, it.To); err != nil {
		q.opts.Log.Warn("torn tail stays in the file: it could not be copied to quarantine", "segment", s.String(), "error", err)
		return
	}
	if it.HasProof {
		return // the next Open needs it if there is no checkpoint then
	}
	// Cosmetic: what is beyond the end is never read, this only keeps the next
	// Open from finding it again. So a read-only disk does not matter.
	if err := errors.Join(file.Truncate(it.From), file.Sync()); err != nil {
		q.opts.Log.Warn("torn tail stays in the file", "segment", s.String(), "error", err)
		return
	}
	s.size.Store(it.From)
}

// oldestCursor is the first seq that a sink still waits for, 0 without any sink.
func (r *recovery) oldestCursor() (oldest uint64) {
	for _, a := range r.Accounts {
		if oldest == 0 || a.Next < oldest {
			oldest = a.Next
		}
	}
	return oldest
}

// isCounted reports whether the checkpoint holds what s adds up to until off.
func (r *recovery) isCounted(s *foundSegment, off int64) bool {
	c := r.Checkpoint
	return r.HasCheckpoint && (s.Epoch < c.Epoch || s.Epoch == c.Epoch && off <= c.End)
}
