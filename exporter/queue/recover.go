package queue

import (
	"errors"
	"fmt"
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
	q          *Queue
	segments   []*foundSegment
	spares     []string
	begun      []string          // files of segments that were being begun
	number     int               // the highest in a name of either
	cursors    *state.CursorFile // nil when there is none
	accounts   map[string]Account
	checkpoint state.Checkpoint
	hasCheck   bool // checkpoint is valid

	// knownDurable is a seq: every record below it was durable once, because a
	// sink has passed it or a checkpoint was made beyond it.
	knownDurable uint64
	// newest is when the last frame that was found behind the checkpoint was received,
	// Unix nanoseconds.
	newest int64
	// tail is the first seq that is written again, 0 when no record is.
	tail uint64
}

// foundSegment is a segment as it was found, and as it is part of the queue.
type foundSegment struct {
	*segment.Stored
	live *liveSegment
}

// recover fills in what q is made of. The order matters: identity first, then
// what the log adds up to, then the places in it.
func (q *Queue) recover() error {
	r := &recovery{q: q, accounts: map[string]Account{}}
	for _, step := range []func() error{
		r.readCursors, r.readCheckpoint, r.listFiles, r.identify, r.inspectSpares, r.linkSegments, r.foldLog, r.findUncopied,
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
	q.parked = maps.Clone(r.accounts)
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
	for _, a := range r.accounts {
		if a.Next < s.Until {
			return false
		}
	}
	return len(r.accounts) > 0 && r.isCounted(s, s.live.end.Load())
}

// readCursors reads the cursors file. A damaged one is set aside: its sinks
// start again at the first kept record, which delivers twice and skips nothing.
// The janitor makes a new one.
func (r *recovery) readCursors() error {
	q := r.q
	file, accounts, err := state.OpenCursorFile(q.opts.FS, q.opts.Directory)
	switch {
	case errors.Is(err, state.ErrCursors):
		return q.quarantineFile(state.CursorsFile, err)
	case state.NotExist(err):
		return nil
	case err != nil:
		return err
	}
	r.cursors, r.accounts = file, maps.Clone(accounts)
	q.janitor.cursors = file
	return nil
}

// readCheckpoint reads the positions file. Without it the whole log is read.
func (r *recovery) readCheckpoint() (err error) {
	r.checkpoint, r.hasCheck, err = state.ReadCheckpoint(r.q.opts.FS, r.q.opts.Directory)
	if errors.Is(err, state.ErrPositions) {
		return r.q.quarantineFile(state.PositionsFile, err)
	}
	return err
}

func (r *recovery) listFiles() error {
	files, err := r.q.opts.FS.List(r.q.opts.Directory)
	if err != nil {
		return fmt.Errorf("list: %w", err)
	}
	for _, file := range files {
		if name, ok := segment.ParseName(file); ok {
			r.segments = append(r.segments, &foundSegment{Stored: segment.NewStored(name)})
		}
	}
	r.spares, r.begun, r.number = state.SparesOf(files)
	slices.SortFunc(r.segments, func(a, b *foundSegment) int { return a.Compare(b.Name) })
	return nil
}

// identify finds the queue's UUID and the sizes of its segments. A file of
// another queue is set aside.
func (r *recovery) identify() error {
	q := r.q
	var ids []uuid.UUID
	for _, s := range r.segments {
		switch err := r.readHeader(s.Stored); {
		case err != nil:
			return fmt.Errorf("segment %s: %w", s, err)
		case s.HeaderErr != nil:
			// The name says what the header said; a foreign segment cannot pass
			// for ours, because its frames have other epochs and seqs.
			q.opts.Log.Warn("segment header damaged: its frames are read all the same", "segment", s.String(), "error", s.HeaderErr)
		default:
			ids = append(ids, s.Header.Queue)
		}
	}
	if r.hasCheck {
		ids = append(ids, r.checkpoint.Queue)
	}
	if r.cursors != nil {
		ids = append(ids, r.cursors.Queue)
	}
	q.id = state.OwnerOf(ids)
	if q.id == uuid.Nil {
		q.id = uuid.New()
	}
	return errors.Join(r.adoptCursors(), r.adoptCheckpoint(), r.adoptSegments())
}

func (r *recovery) adoptCursors() error {
	q := r.q
	if r.cursors != nil && r.cursors.Queue != q.id {
		q.janitor.close()
		q.janitor.cursors, r.accounts = nil, map[string]Account{}
		return q.quarantineFile(state.CursorsFile, fmt.Errorf("%w %s", state.ErrOtherQueue, r.cursors.Queue))
	}
	for _, a := range r.accounts {
		r.knownDurable = max(r.knownDurable, a.Next, a.ReplayTo)
	}
	return nil
}

func (r *recovery) adoptCheckpoint() error {
	q := r.q
	q.janitor.base = state.Checkpoint{Queue: q.id, NextSeq: 1}
	if !r.hasCheck {
		return nil
	}
	if r.checkpoint.Queue != q.id {
		r.hasCheck = false
		return q.quarantineFile(state.PositionsFile, fmt.Errorf("%w %s", state.ErrOtherQueue, r.checkpoint.Queue))
	}
	r.knownDurable = max(r.knownDurable, r.checkpoint.NextSeq)
	q.committer.epoch = max(q.committer.epoch, r.checkpoint.Epoch)
	q.janitor.base = r.checkpoint
	return nil
}

func (r *recovery) adoptSegments() error {
	q := r.q
	var kept []*foundSegment
	for _, s := range r.segments {
		if s.Header.Queue != uuid.Nil && s.Header.Queue != q.id {
			if err := q.quarantineFile(s.String(), fmt.Errorf("%w %s", state.ErrOtherQueue, s.Header.Queue)); err != nil {
				return err
			}
			continue
		}
		kept = append(kept, s)
		q.committer.epoch = max(q.committer.epoch, s.Epoch)
	}
	r.segments = kept
	return nil
}

// inspectSpares takes in the spares, whose epochs must not be given out again.
// Files that were being begun may hold frames of unknown epochs: they are removed, as is
// a spare that does not say what it was.
func (r *recovery) inspectSpares() error {
	q := r.q
	kept := r.spares[:0]
	for _, name := range r.spares {
		epoch, ok, err := r.inspectSpare(name)
		if err != nil {
			return err
		}
		if !ok {
			r.begun = append(r.begun, name)
			continue
		}
		q.committer.epoch = max(q.committer.epoch, epoch)
		kept = append(kept, name)
	}
	for _, name := range r.begun {
		// Where it stays it holds space and is found again.
		if err := q.opts.FS.Remove(q.path(name)); err != nil {
			q.opts.Log.Debug("unfinished file stays", "file", name, "error", err)
		}
	}
	q.pool.found(kept, r.number)
	return nil
}

// inspectSpare returns the epoch of a spare; ok is false when it is of no use. The error
// is a *fileversion.Error.
func (r *recovery) inspectSpare(name string) (epoch uint64, ok bool, err error) {
	f, err := r.q.opts.FS.Open(r.q.path(name))
	if err != nil {
		return 0, false, nil
	}
	defer f.Close()
	epoch, err = segment.SpareEpoch(f, r.q.path(name))
	if unknown, is := errors.AsType[*fileversion.Error](err); is {
		return 0, false, unknown
	}
	size, sizeErr := f.Size()
	return epoch, err == nil && sizeErr == nil && size == r.q.opts.SegmentBytes, nil
}

// linkSegments finds out where each segment ends.
func (r *recovery) linkSegments() error {
	stored := make([]*segment.Stored, len(r.segments))
	for i, s := range r.segments {
		stored[i] = s.Stored
	}
	segment.Link(stored)
	for _, s := range r.segments {
		if !s.IsLast() && (!s.Exact || s.NamedEnd > s.Size) {
			if err := r.findEnd(s.Stored); err != nil {
				return fmt.Errorf("segment %s: %w", s, err)
			}
		}
		s.live = newSegment(s.Name, s.End, s.Size)
		s.live.until.Store(s.Until)
		s.live.newest.Store(s.Newest)
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

func (r *recovery) readHeader(s *segment.Stored) error {
	file, err := r.q.opts.FS.Open(r.q.path(s.String()))
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer file.Close()
	size, err := file.Size()
	if err == nil {
		s.ReadHeader(file, r.q.opts.Directory, size)
		err = s.OpenErr
	}
	return err
}
