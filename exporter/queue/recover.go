package queue

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// recovery is what Open learns from the directory. doc.go tells what each step
// is for.
type recovery struct {
	q          *Queue
	segments   []*foundSegment
	spares     []string
	begun      []string // files of segments that were being begun
	number     int      // the highest in a name of either
	accounts   map[string]Account
	checkpoint checkpoint
	hasCheck   bool // checkpoint is valid

	// knownDurable is a seq: every record below it was durable once, because a
	// sink has passed it or a checkpoint was made beyond it.
	knownDurable uint64
}

// foundSegment is a segment with what Open finds out about it.
type foundSegment struct {
	*segment
	header segmentHeader // zero when it is damaged
	// exact is set when a later segment says where this one ends. Otherwise end is
	// that of its last frame and, for the last segment, the size of the file.
	exact bool
}

// recover fills in what q is made of. The order matters: identity first, then
// what the log adds up to, then the places in it.
func (q *Queue) recover() error {
	r := &recovery{q: q}
	for _, step := range []func() error{
		r.readCursors, r.readCheckpoint, r.listFiles, r.identify, r.inspectSpares, r.linkSegments, r.foldLog, r.findUncopied,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	segments, passed := r.splitPassed()
	q.housekeeper.passed = passed
	for _, s := range segments {
		s.sealed = true
	}
	if n := len(r.segments); n > 0 {
		last := r.segments[n-1].segment
		q.committer.last = last
		// Its tail is nowhere else until it is written again.
		last.sealed = len(q.pending.frames) == 0
	}
	q.segments.Store(&segments)
	q.parked = maps.Clone(r.accounts)
	wake(q.dirty) // what could not be written now is written soon
	return nil
}

// splitPassed returns the segments that are kept, and those that every sink has
// passed and that are not retained. Retained ones have to follow on each other: one
// that has come back after a crash alone would show what is missing as damage.
func (r *recovery) splitPassed() (kept, passed []*segment) {
	retain := r.q.opts.Retain.isOn()
	for i, s := range slices.Backward(r.segments) {
		last := i == len(r.segments)-1
		retain = retain && (last || r.segments[i+1].header.prevEpoch == s.epoch)
		if last || retain || !r.isPassed(s) {
			kept = append(kept, s.segment)
		} else {
			passed = append(passed, s.segment)
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
		if a.Next < s.until.Load() {
			return false
		}
	}
	return len(r.accounts) > 0 && r.isCounted(s, s.end.Load())
}

// readCursors reads the cursors file. A damaged one is set aside: its sinks
// start again at the first kept record, which delivers twice and skips nothing.
// The housekeeper makes a new one.
func (r *recovery) readCursors() error {
	q := r.q
	file, accounts, err := openCursorFile(q.opts.FS, q.opts.Directory)
	switch {
	case errors.Is(err, errCursors):
		err = q.setAside(cursorsFile, err)
	case notExist(err):
		err = nil
	case err == nil:
		q.housekeeper.cursors = file
		q.id = file.queue
	}
	r.accounts = maps.Clone(accounts)
	if r.accounts == nil {
		r.accounts = map[string]Account{}
	}
	for _, a := range r.accounts {
		r.knownDurable = max(r.knownDurable, a.Next)
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

func (r *recovery) listFiles() error {
	files, err := r.q.opts.FS.List(r.q.opts.Directory)
	if err != nil {
		return fmt.Errorf("list: %w", err)
	}
	for _, file := range files {
		if name, ok := parseSegmentName(file); ok {
			r.segments = append(r.segments, &foundSegment{segment: newSegment(name, 0, 0)})
		}
	}
	r.spares, r.begun, r.number = sparesOf(files)
	slices.SortFunc(r.segments, func(a, b *foundSegment) int { return a.compare(b.segmentName) })
	return nil
}

// identify finds the queue's UUID and the sizes of its segments. A file of
// another queue is set aside.
func (r *recovery) identify() error {
	q := r.q
	if q.id == uuid.Nil && r.hasCheck {
		q.id = r.checkpoint.Queue
	}
	kept := r.segments[:0]
	for _, s := range r.segments {
		err := r.inspect(s)
		switch {
		case errors.Is(err, errSegmentHeader):
			// The name says what the header said; a foreign segment cannot pass
			// for ours, because its frames have other epochs and seqs.
			q.opts.Log.Warn("segment header damaged: its frames are read all the same", "segment", s.String(), "error", err)
		case err != nil:
			return fmt.Errorf("segment %s: %w", s, err)
		case q.id == uuid.Nil:
			q.id = s.header.queue
		case s.header.queue != q.id:
			if err := q.setAside(s.String(), fmt.Errorf("it belongs to queue %s", s.header.queue)); err != nil {
				return err
			}
			continue
		}
		kept = append(kept, s)
		q.committer.epoch = max(q.committer.epoch, s.epoch)
	}
	r.segments = kept
	if q.id == uuid.Nil {
		q.id = uuid.New()
	}
	q.housekeeper.base = checkpoint{Queue: q.id, NextSeq: 1, state: newState()}
	if !r.hasCheck {
		return nil
	}
	if r.checkpoint.Queue != q.id {
		r.hasCheck = false
		return q.setAside(positionsFile, fmt.Errorf("it belongs to queue %s", r.checkpoint.Queue))
	}
	r.knownDurable = max(r.knownDurable, r.checkpoint.NextSeq)
	q.committer.epoch = max(q.committer.epoch, r.checkpoint.Epoch)
	q.housekeeper.base = r.checkpoint
	q.housekeeper.base.state = r.checkpoint.clone()
	return nil
}

// inspectSpares takes in the spares, whose epochs must not be given out again.
// What was being begun may hold frames of epochs that nobody knows of: it goes, and
// so does a spare that does not say what it was.
func (r *recovery) inspectSpares() error {
	q := r.q
	kept := r.spares[:0]
	for _, name := range r.spares {
		epoch, ok := r.inspectSpare(name)
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
	q.supply.found(kept, r.number)
	return nil
}

// inspectSpare returns the epoch of a spare; ok is false when it is of no use.
func (r *recovery) inspectSpare(name string) (epoch uint64, ok bool) {
	f, err := r.q.opts.FS.Open(r.q.path(name))
	if err != nil {
		return 0, false
	}
	defer f.Close()
	if size, err := f.Size(); err != nil || size != r.q.opts.SegmentBytes {
		return 0, false
	}
	epoch, err = spareEpoch(f)
	return epoch, err == nil
}

func (r *recovery) inspect(s *foundSegment) error {
	f, err := r.q.opts.FS.Open(r.q.path(s.String()))
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	s.end.Store(size)
	s.size.Store(size)
	s.header, err = readSegmentHeader(f, s.segmentName)
	return err
}

// linkSegments finds out where each segment ends. One that is found under its
// own name has taken over from the one before it.
func (r *recovery) linkSegments() error {
	for i, s := range r.segments {
		for _, before := range r.segments[:i] {
			if before.epoch == s.header.prevEpoch && s.header.prevEnd <= before.size.Load() {
				before.end.Store(s.header.prevEnd)
				before.newest.Store(s.header.created)
				before.exact = true
			}
		}
		if i > 0 {
			r.segments[i-1].until.Store(s.firstSeq)
		}
	}
	for i, s := range r.segments {
		if last := i == len(r.segments)-1; last || s.exact {
			continue
		}
		if err := r.findEnd(s); err != nil {
			return fmt.Errorf("segment %s: %w", s, err)
		}
	}
	return nil
}

// findEnd finds the end of a segment whose successor is missing or does not name
// it: behind the last frame there may be old content of the file.
func (r *recovery) findEnd(s *foundSegment) error {
	file, err := r.q.opts.FS.Open(r.q.path(s.String()))
	if err != nil {
		return err
	}
	defer file.Close()
	var reader frameReader
	reader.open(file, s.epoch)
	end := reader.off
	for {
		f, err := reader.resync(s.firstSeq, s.size.Load())
		if errors.Is(err, io.EOF) {
			s.end.Store(end)
			return nil
		}
		if err != nil {
			return err
		}
		reader.skip(&f)
		end = reader.off
	}
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
	} else {
		next = max(next, r.oldestCursor()) // what was before is done with
	}
	for i, s := range r.segments {
		last := i == len(r.segments)-1
		if !last && r.isCounted(s, s.end.Load()) {
			continue
		}
		if !r.isCounted(s, segmentHeaderSize) {
			q.reportLost(SeqRange{From: next, To: s.firstSeq})
		}
		end, err := r.foldSegment(s, last)
		if err != nil {
			return fmt.Errorf("segment %s: %w", s, err)
		}
		next = max(next, end)
	}
	if len(q.pending.frames) == 0 {
		// What was durable once has had its seq, which must not be given out
		// again, whatever has become of the log.
		q.reportLost(SeqRange{From: next, To: r.knownDurable})
		next = max(next, r.knownDurable)
	}
	q.durable.Store(next - 1)
	if n := len(r.segments); n > 0 {
		// Nothing is ever added to the segments found, so that all of them can go
		// as soon as they are delivered.
		q.checkpointUpTo(r.segments[n-1].segment)
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
	copies, err := q.opts.FS.List(q.path(quarantineDir))
	if err != nil && !notExist(err) {
		return fmt.Errorf("list %s: %w", quarantineDir, err)
	}
	for _, s := range r.segments {
		lost := slices.ContainsFunc(q.state.Lost, func(l SeqRange) bool {
			return l.From < s.until.Load() && l.To > s.firstSeq
		})
		copied := slices.ContainsFunc(copies, func(name string) bool { return strings.HasPrefix(name, s.String()+".") })
		s.unreadable.Store(s.unreadable.Load() || lost && !copied)
	}
	return nil
}

// isCounted reports whether the checkpoint holds what s adds up to until off.
func (r *recovery) isCounted(s *foundSegment, off int64) bool {
	c := r.checkpoint
	return r.hasCheck && (s.epoch < c.Epoch || s.epoch == c.Epoch && off <= c.End)
}

// foldSegment adds the frames of s to the state, unless the checkpoint has them,
// and returns the seq after its last durable record.
//
// The end of the last segment may hold frames that are whole and yet were never
// synced, and a sync now could say yes although one before the crash has failed
// and dropped them. So those go to the committer as if they had just arrived,
// and are written again elsewhere.
func (r *recovery) foldSegment(s *foundSegment, last bool) (uint64, error) {
	q := r.q
	file, err := q.opts.FS.Open(q.path(s.String()))
	if err != nil {
		return 0, err
	}
	defer file.Close()
	known := extent{end: s.end.Load(), proven: math.MaxInt64}
	if last {
		if known, err = r.findExtent(s, file); err != nil {
			return 0, err
		}
		s.end.Store(segmentHeaderSize)
	}
	var reader frameReader
	reader.open(file, s.epoch)
	next := s.firstSeq
	for {
		at := reader.off
		f, err := reader.resync(next, known.end)
		if errors.Is(err, io.EOF) || (err == nil && !s.exact && f.firstSeq >= s.until.Load()) {
			return next, nil
		}
		if err != nil {
			return 0, err
		}
		if reader.off > at {
			q.quarantine(s.segment, file, at, reader.off, errHeader)
		}
		if len(q.pending.frames) == 0 {
			// In the tail the gap is the same, seen from its other side.
			q.reportLost(SeqRange{From: next, To: f.firstSeq})
			next = f.firstSeq
		}
		counted := r.isCounted(s, reader.off+int64(f.size()))
		if len(q.pending.frames) > 0 || !(counted || known.proves(reader.off, &f)) {
			r.rewrite(reader.bytes(f.size()))
			reader.skip(&f)
			continue
		}
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

// rewrite gives a frame to the committer, as part of its first commit.
func (r *recovery) rewrite(b []byte) {
	p := r.q.pending
	p.frames = append(p.frames, pendingFrame{at: len(p.buf)})
	p.buf = append(p.buf, b...)
}

// extent is how far the frames of the last segment can be trusted.
type extent struct {
	end int64 // offset after the last frame that counts
	// proven is the offset up to which a later frame says that it was synced.
	proven int64
	// commit is the offset at which the last commit begins that is known to have
	// been durable, because a record of it was; -1 when none is.
	commit int64
}

// proves reports whether the frame at off was synced for certain.
func (x extent) proves(off int64, f *frame) bool {
	return off < x.proven || f.durable <= x.commit
}

// findExtent looks at the last segment from its beginning.
//
// A hole is a torn tail when no frame behind it was written after it was synced:
// nobody was told about it or about what follows, and a power cut may keep the
// blocks of one commit in any order. Then everything from the hole on is cut.
// Otherwise it is damage to acknowledged records, and what follows is kept.
//
// There is always a hole at the end: what the file held before this epoch.
func (r *recovery) findExtent(s *foundSegment, file File) (extent, error) {
	x := extent{proven: segmentHeaderSize, commit: -1}
	size := s.size.Load()
	var reader frameReader
	reader.open(file, s.epoch)
	next := s.firstSeq
	for {
		hole := reader.off
		torn := reader.isTorn(size)
		f, err := reader.resync(next, size)
		atEnd := errors.Is(err, io.EOF)
		if err != nil && !atEnd {
			return extent{}, err
		}
		if atEnd || (reader.off > hole && !r.provesDurable(reader, next, hole, size)) {
			x.end = hole
			if torn || !atEnd {
				r.cutTail(s, file, hole, !atEnd)
			}
			break
		}
		x.proven = max(x.proven, f.durable)
		if r.wasDurable(&f) {
			x.commit = max(x.commit, f.durable)
		}
		next = f.end()
		reader.skip(&f)
	}
	return x, nil
}

// wasDurable reports whether a record of f is known to have been durable, and
// with it the whole commit that f was written in.
func (r *recovery) wasDurable(f *frame) bool {
	return f.count > 0 && f.firstSeq < r.knownDurable
}

// provesDurable reports whether a frame from reader on shows that what is at
// offset hole was durable. It works on a copy of the reader.
func (r *recovery) provesDurable(reader frameReader, next uint64, hole, size int64) bool {
	reader.buf = nil
	reader.seek(reader.off)
	for {
		f, err := reader.resync(next, size)
		if err != nil {
			return false
		}
		if f.durable > hole || r.wasDurable(&f) {
			return true
		}
		reader.skip(&f)
	}
}

// cutTail drops what a crash left unfinished. Bytes that look like frames are
// kept in quarantine, although nobody was told that they were safe.
func (r *recovery) cutTail(s *foundSegment, file File, from int64, hasFrames bool) {
	q := r.q
	if hasFrames {
		q.quarantine(s.segment, file, from, s.size.Load(), errShort)
	}
	q.tornTails++
	q.opts.Log.Info("torn tail cut: a crash interrupted a write that nobody was told about", "segment", s.String(), "from", from)
	// Cosmetic: what is beyond the end is never read, this only keeps the next
	// Open from finding it again. So a read-only disk does not matter.
	err := errors.Join(file.Truncate(from), file.Sync())
	if err != nil {
		q.opts.Log.Warn("torn tail stays in the file", "segment", s.String(), "error", err)
		return
	}
	s.size.Store(from)
}
