package queue

import (
	"errors"
	"fmt"
)

// LostError says that the directory of the queue is no longer the one that this process
// has locked. Nothing more is written at the path, because another process may own what
// is there now. The queue continues by itself if the directory comes back.
type LostError struct {
	Directory string
	Err       error // of the look at the lock file
}

func (e *LostError) Error() string {
	return fmt.Sprintf("queue %s was removed, moved or replaced: %v", e.Directory, e.Err)
}

func (e *LostError) Unwrap() error { return e.Err }

// ErrSegmentRemoved says that somebody removed the file of the active segment: its
// acknowledged, undelivered records are lost. The next commit goes to a new segment.
var ErrSegmentRemoved = errors.New("the file was removed: its acknowledged and undelivered records are lost, except to sinks that have it open")

// checkGround returns a *LostError while the directory is lost. The lock file stands
// for it: as long as its name leads to the file that this process has locked, the
// directory is the one that was opened, and nobody else has it.
func (q *Queue) checkGround() error {
	err := q.lock.Check()
	say := func() {}
	q.mu.Lock()
	was := q.lost
	if q.lost = nil; err != nil {
		q.lost = &LostError{Directory: q.opts.Directory, Err: err}
		say = q.setFailed(q.lost)
	} else if _, isLost := errors.AsType[*LostError](q.failed); was != nil && isLost {
		say = q.setWorks()
	}
	lost := q.lost
	q.mu.Unlock()
	say()
	return lost
}

// checkActive fails when what was just synced is on no disk that a restart would find:
// the directory is known to be lost, or the active segment has been removed. To ask the
// kernel of an open file costs a thousandth of a sync, so each commit can.
func (q *Queue) checkActive() error {
	w := &q.committer
	q.mu.Lock()
	lost := q.lost
	q.mu.Unlock()
	if lost != nil {
		return lost
	}
	removed, err := w.file.IsRemoved()
	if err == nil && removed {
		err = ErrSegmentRemoved
	}
	if err != nil {
		return fmt.Errorf("segment %s: records %d to %d: %w", w.active, w.active.FirstSeq, q.durable.Load(), err)
	}
	return nil
}

// cursorsRemoved reports whether the file that the janitor writes has no name any
// more. A restart would deliver again what every sink has.
func (h *janitor) cursorsRemoved() bool {
	if h.cursors == nil {
		return false
	}
	removed, err := h.cursors.File.IsRemoved()
	return err == nil && removed
}
