package queue

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/google/uuid"
)

// recovery is what Open learns from the directory. doc.go tells what each step
// is for.
type recovery struct {
	q          *Queue
	segments   []*segment
	cursors    *cursorFile // nil: none that can be used
	accounts   map[string]Account
	checkpoint checkpoint
	hasCheck   bool // checkpoint is valid
}

// recover fills in what q is made of. The order matters: identity first, then
// what the log adds up to, then the places in it.
func (q *Queue) recover() error {
	r := &recovery{q: q}
	for _, step := range []func() error{
		r.readCursors, r.readCheckpoint, r.listSegments, r.identify, r.foldLog, r.placeCursors,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	q.segments.Store(&r.segments)
	q.parked = maps.Clone(r.accounts)
	q.housekeeper.cursors = r.cursors
	q.housekeeper.written = r.accounts
	if r.hasCheck {
		q.housekeeper.covered = r.checkpoint.Epoch
	}
	return nil
}

// readCursors reads the cursors file. A damaged one is set aside: its sinks
// start again at the first kept record, which delivers twice and skips nothing.
func (r *recovery) readCursors() (err error) {
	r.cursors, r.accounts, err = openCursorFile(r.q.opts.FS, r.q.opts.Directory)
	switch {
	case errors.Is(err, errCursors):
		return r.q.setAside(cursorsFile, err)
	case notExist(err):
		return nil
	}
	return err
}

// readCheckpoint reads the positions file. Without it the whole log is read.
func (r *recovery) readCheckpoint() (err error) {
	r.checkpoint, r.hasCheck, err = readCheckpoint(r.q.opts.FS, r.q.opts.Directory)
	if errors.Is(err, errCheckpoint) {
		return r.q.setAside(positionsFile, err)
	}
	return err
}

func (r *recovery) listSegments() error {
	files, err := r.q.opts.FS.List(r.q.opts.Directory)
	if err != nil {
		return fmt.Errorf("list: %w", err)
	}
	var names []segmentName
	for _, file := range files {
		if name, ok := parseSegmentName(file); ok {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, segmentName.compare)
	for i, name := range names {
		if i+1 < len(names) && names[i+1].firstSeq == name.firstSeq {
			// Its successor begins with the same seq: nothing in it was durable.
			if err := r.q.removeSegment(name); err != nil {
				return err
			}
			continue
		}
		r.segments = append(r.segments, newSegment(name, 0))
	}
	for i, s := range r.segments[:max(0, len(r.segments)-1)] {
		s.until.Store(r.segments[i+1].firstSeq)
	}
	return nil
}

// identify finds the queue's UUID and the sizes of its segments. A segment of
// another queue is set aside.
func (r *recovery) identify() error {
	q := r.q
	if r.cursors != nil {
		q.id = r.cursors.queue
	} else if r.hasCheck {
		q.id = r.checkpoint.Queue
	}
	kept := r.segments[:0]
	for _, s := range r.segments {
		id, size, err := r.inspect(s)
		switch {
		case errors.Is(err, errSegmentHeader):
			// The name says what the header said; a foreign segment cannot pass
			// for ours, because its frames have other epochs and seqs.
			q.opts.Log.Warn("segment header damaged: its frames are read all the same", "segment", s.String())
		case err != nil:
			return fmt.Errorf("segment %s: %w", s, err)
		case q.id == uuid.Nil:
			q.id = id
		case id != q.id:
			if err := q.setAside(s.String(), fmt.Errorf("it belongs to queue %s", id)); err != nil {
				return err
			}
			continue
		}
		s.end.Store(size)
		kept = append(kept, s)
		q.committer.epoch = max(q.committer.epoch, s.epoch)
	}
	r.segments = kept
	if r.hasCheck && r.checkpoint.Queue != q.id {
		r.hasCheck = false
		return q.setAside(positionsFile, fmt.Errorf("it belongs to queue %s", r.checkpoint.Queue))
	}
	if r.hasCheck {
		q.committer.epoch = max(q.committer.epoch, r.checkpoint.Epoch)
	}
	if q.id == uuid.Nil {
		q.id = uuid.New()
	}
	return nil
}

func (r *recovery) inspect(s *segment) (id uuid.UUID, size int64, err error) {
	f, err := r.q.opts.FS.Open(r.q.path(s.String()))
	if err != nil {
		return uuid.Nil, 0, fmt.Errorf("open: %w", err)
	}
	defer f.Close()
	if size, err = f.Size(); err != nil {
		return uuid.Nil, 0, err
	}
	id, err = readSegmentHeader(f, s.segmentName)
	return id, size, err
}

// foldLog adds the frames since the checkpoint to its state, and finds the end
// of the log.
func (r *recovery) foldLog() error {
	q := r.q
	q.state = newState()
	var next uint64 = 1
	if r.hasCheck {
		q.state, next = r.checkpoint.state, r.checkpoint.NextSeq
	} else if len(r.segments) > 0 {
		next = r.segments[0].firstSeq
	}
	for i, s := range r.segments {
		last := i == len(r.segments)-1
		counted := r.hasCheck && s.epoch <= r.checkpoint.Epoch
		if counted && !last {
			continue
		}
		if !counted {
			q.reportLost(SeqRange{From: next, To: s.firstSeq})
		}
		end, err := r.foldSegment(s, counted, last)
		if err != nil {
			return fmt.Errorf("segment %s: %w", s, err)
		}
		next = max(next, end)
	}
	if len(q.pending.frames) == 0 {
		// What a cursor has passed was durable once. Its seqs must not be given
		// out again, whatever has become of the log.
		q.reportLost(SeqRange{From: next, To: r.maxNext()})
		next = max(next, r.maxNext())
	}
	q.durable.Store(next - 1)
	return nil
}

// maxNext is the place of the sink that is furthest.
func (r *recovery) maxNext() uint64 {
	var next uint64
	for _, a := range r.accounts {
		next = max(next, a.Next)
	}
	return next
}

// foldSegment adds the frames of s to the state, unless they are counted
// already, and returns the seq after its last durable record.
//
// The end of the last segment may hold frames that are whole and yet were never
// synced, and a sync now could say yes although one before the crash has failed
// and dropped them. So those go to the committer as if they had just arrived,
// and are written again elsewhere.
func (r *recovery) foldSegment(s *segment, counted, last bool) (uint64, error) {
	q := r.q
	file, err := q.opts.FS.Open(q.path(s.String()))
	if err != nil {
		return 0, err
	}
	defer file.Close()
	limit := s.end.Load()
	proven := limit
	if last {
		if limit, proven, err = r.findEnd(s, file); err != nil {
			return 0, err
		}
		s.end.Store(segmentHeaderSize)
	}
	var reader frameReader
	reader.open(file, s.epoch)
	next := s.firstSeq
	for {
		at := reader.off
		f, err := reader.resync(next, limit)
		if errors.Is(err, io.EOF) || (err == nil && f.firstSeq >= s.until.Load()) {
			return next, nil // beyond until: left behind by a failed commit
		}
		if err != nil {
			return 0, err
		}
		if reader.off > at {
			if err := q.quarantine(s.segmentName, file, at, reader.off, errHeader); err != nil {
				return 0, err
			}
		}
		unproven := reader.off >= proven && f.end() > r.maxNext()
		if unproven || len(q.pending.frames) > 0 {
			q.pending.frames = append(q.pending.frames, pendingFrame{at: len(q.pending.buf)})
			q.pending.buf = append(q.pending.buf, reader.bytes(f.size())...)
			reader.skip(&f)
			continue
		}
		q.reportLost(SeqRange{From: next, To: f.firstSeq})
		if !counted {
			q.state.add(&f)
		}
		next = f.end()
		reader.skip(&f)
		if last {
			s.end.Store(reader.off)
		}
	}
}

// findEnd returns the offset after the last whole frame of the last segment, and
// the offset up to which a later frame proves that the bytes were synced.
//
// A hole is a torn tail when no frame behind it was written after it was synced:
// nobody was told about it or about what follows, and a power cut may keep the
// blocks of one commit in any order. Then everything from the hole on is cut.
// Otherwise it is damage to acknowledged records, and what follows is kept.
func (r *recovery) findEnd(s *segment, file File) (end, proven int64, err error) {
	size := s.end.Load()
	proven = segmentHeaderSize
	var reader frameReader
	reader.open(file, s.epoch)
	next := s.firstSeq
	for {
		hole := reader.off
		f, err := reader.resync(next, size)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, 0, err
		}
		if err != nil || (reader.off > hole && !r.provesDurable(reader, next, hole, size)) {
			if hole < size {
				return hole, proven, r.cutTail(s, file, hole, size, err == nil)
			}
			return hole, proven, nil
		}
		proven = max(proven, f.durable)
		next = f.end()
		reader.skip(&f)
	}
}

// provesDurable reports whether a frame from reader on says that offset hole was
// durable when it was written. It works on a copy of the reader.
func (r *recovery) provesDurable(reader frameReader, next uint64, hole, size int64) bool {
	reader.seek(reader.off)
	reader.buf = nil
	for {
		f, err := reader.resync(next, size)
		if err != nil {
			return false
		}
		if f.durable > hole {
			return true
		}
		reader.skip(&f)
	}
}

// cutTail drops what a crash left unfinished. Bytes that look like frames are
// kept in quarantine, although nobody was told that they were safe.
func (r *recovery) cutTail(s *segment, file File, from, size int64, hasFrames bool) error {
	q := r.q
	if hasFrames {
		if err := q.quarantine(s.segmentName, file, from, size, errShort); err != nil {
			return err
		}
	}
	q.opts.Log.Info("torn tail cut: a crash interrupted a write that nobody was told about",
		"segment", s.String(), "from", from, "bytes", size-from)
	// Cosmetic: what is beyond the end is never read, this only keeps the next
	// Open from finding it again. So a read-only disk does not matter.
	if err := errors.Join(file.Truncate(from), file.Sync()); err != nil {
		q.opts.Log.Warn("torn tail stays in the file", "segment", s.String(), "error", err)
	}
	return nil
}

// placeCursors makes the cursors file when there is none that can be used.
func (r *recovery) placeCursors() (err error) {
	if r.cursors == nil {
		r.accounts = map[string]Account{}
		r.cursors, err = createCursorFile(r.q.opts.FS, r.q.opts.Directory, r.q.id, r.accounts)
	}
	return err
}
