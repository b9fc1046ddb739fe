package queue

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/fileversion"
)

// recovery is what Open learns from the directory. doc.go tells what each step
// is for.
type recovery struct {
	q *Queue
	*state.Survey
	segments []*foundSegment // of Survey
	// newest is when the last frame that was found behind the checkpoint was received,
	// Unix nanoseconds.
	newest int64
	// tail is the first seq that is written again, 0 when no record is, and tailBytes the
	// size of the frames.
	tail        uint64
	tailBytes   int
	tailRecords uint64
}

// foundSegment is a segment as it was found, and as it is part of the queue.
type foundSegment struct {
	*segment.Stored
	live *liveSegment
}

// recover fills in what q is made of. The order matters: identity first, then
// what the log adds up to, then the places in it.
func (q *Queue) recover() error {
	found, err := state.Look(q.opts.FS, q.opts.Directory)
	if err != nil {
		return fmt.Errorf("list: %w", err)
	}
	q.janitor.cursors = found.Cursors
	r := &recovery{q: q, Survey: found}
	for _, step := range []func() error{
		r.checkReadable, r.setAside, r.adopt, r.removeBegun, r.findEnds, r.foldLog,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	q.unattributed = q.durable.Load() - q.state.Stored()
	segments, passed := r.splitPassed()
	q.janitor.passed = passed
	for _, s := range segments {
		s.sealed = true
		if s.newest.Load() == 0 {
			s.newest.Store(time.Now().UnixNano()) // not known: a little too long is right
		}
	}
	if n := len(r.segments); n > 0 {
		last := r.segments[n-1].live
		q.committer.last = last
		// Its tail is nowhere else until it is written again.
		last.sealed = len(q.pending.frames) == 0
	}
	q.setSegments(segments)
	q.parked, q.accountsLost = maps.Clone(r.Accounts), r.Cursors == nil && r.Queue != uuid.Nil
	wake(q.dirty) // what could not be written now is written soon
	return nil
}

// splitPassed returns the segments that are kept, and those that every sink has
// passed and that are not retained. Retained ones have to follow on each other: one
// that has come back after a crash alone would show what is missing as damage.
func (r *recovery) splitPassed() (kept, passed []*liveSegment) {
	retain := r.q.opts.Retain.isOn()
	for i, s := range slices.Backward(r.segments) {
		last := i == len(r.segments)-1
		retain = retain && (last || r.segments[i+1].Header.PrevEpoch == s.Epoch)
		if last || retain || !r.isPassed(s) {
			kept = append(kept, s.live)
		} else {
			passed = append(passed, s.live)
		}
	}
	slices.Reverse(kept)
	return kept, passed
}

// isPassed reports whether every sink has passed s. Then it was about to be removed
// or has come back after a crash, perhaps without those behind it: a new sink must
// not begin there.
func (r *recovery) isPassed(s *foundSegment) bool {
	for _, a := range r.Accounts {
		if a.Next < s.Until {
			return false
		}
	}
	return len(r.Accounts) > 0 && r.isCounted(s, s.live.end.Load())
}

// checkReadable fails when a file cannot be read, or is of another version: nothing is
// changed then.
func (r *recovery) checkReadable() error {
	if err := r.CursorsErr; err != nil && !errors.Is(err, state.ErrCursors) && !errors.Is(err, state.ErrOtherQueue) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := r.CheckpointErr; err != nil && !errors.Is(err, state.ErrPositions) && !errors.Is(err, state.ErrOtherQueue) {
		return err
	}
	for _, s := range r.Segments {
		if errors.As(s.OpenErr, new(*fileversion.Error)) {
			return fmt.Errorf("segment %s: %w", s, s.OpenErr)
		}
		if s.OpenErr != nil {
			return fmt.Errorf("segment %s: open: %w", s, s.OpenErr)
		}
	}
	return r.UnknownVersion()
}

// setAside moves to quarantine what is damaged as a whole or another queue's. Without its
// place a sink starts again at the first kept record, which delivers twice and skips
// nothing; the janitor makes a new cursors file. Without a checkpoint the whole log is
// read.
func (r *recovery) setAside() error {
	var errs []error
	if r.CursorsErr != nil && !errors.Is(r.CursorsErr, fs.ErrNotExist) {
		errs = append(errs, r.q.quarantine.move(state.CursorsFile, r.CursorsErr))
	}
	if r.CheckpointErr != nil {
		errs = append(errs, r.q.quarantine.move(state.PositionsFile, r.CheckpointErr))
	}
	for _, s := range r.Foreign {
		errs = append(errs, r.q.quarantine.move(s.String(), fmt.Errorf("%w %s", state.ErrOtherQueue, s.Header.Queue)))
	}
	return errors.Join(errs...)
}

// adopt makes the queue the one that was found, or a new one.
func (r *recovery) adopt() error {
	q := r.q
	if q.id = r.Queue; q.id == uuid.Nil {
		q.id = uuid.New()
	}
	q.janitor.base = state.Checkpoint{Queue: q.id, NextSeq: 1}
	if r.HasCheckpoint {
		q.janitor.base = r.Checkpoint
	}
	q.committer.epoch = r.Checkpoint.Epoch
	for _, s := range r.Segments {
		if s.HeaderErr != nil {
			q.opts.Log.Warn("segment header damaged: docket still reads its frames", "segment", s.String(), "error", s.HeaderErr)
		}
		r.segments = append(r.segments, &foundSegment{Stored: s})
		q.committer.epoch = max(q.committer.epoch, s.Epoch)
	}
	return nil
}

// removeBegun removes the files of segments that were being begun: what they hold is nowhere
// acknowledged.
func (r *recovery) removeBegun() error {
	for _, name := range r.Begun {
		// Where it stays it holds space and is found again.
		if err := r.q.opts.FS.Remove(r.q.path(name)); err != nil {
			r.q.opts.Log.Debug("unfinished file stays", "file", name, "error", err)
		}
	}
	r.q.pool.number = r.Number
	return nil
}

// findEnds finds out where each segment ends whose successor does not say it.
func (r *recovery) findEnds() error {
	for _, s := range r.segments {
		if !s.IsLast() && (!s.Exact || s.NamedEnd > s.Size) {
			if err := r.findEnd(s.Stored); err != nil {
				return fmt.Errorf("segment %s: %w", s, err)
			}
		}
		s.live = newSegment(s.Name, s.End, s.Size)
		s.live.until.Store(s.Until)
		s.live.newest.Store(s.Newest)
		s.live.damaged.Store(s.HeaderErr != nil || slices.Contains(r.Checkpoint.Damaged, s.Epoch))
	}
	return nil
}

func (r *recovery) findEnd(s *segment.Stored) error {
	file, err := r.q.opts.FS.Open(r.q.path(s.String()))
	if err != nil {
		return err
	}
	defer file.Close()
	return s.FindEnd(file)
}
