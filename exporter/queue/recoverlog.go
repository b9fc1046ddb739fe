package queue

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

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
	if r.tailRecords == 0 {
		// What was durable once has had its seq, which must not be given out
		// again, whatever has become of the log. Records of the tail are beyond it.
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
	from, next := r.behindCheckpoint(s)
	if last {
		if known, err = r.findExtent(s, file); err != nil {
			return 0, err
		}
		s.end.Store(from)
	}
	var reader frameReader
	reader.open(file, s.epoch)
	reader.seek(from)
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
			next = max(next, f.firstSeq)
		}
		counted := r.isCounted(s, reader.off+int64(f.size()))
		if len(q.pending.frames) > 0 || !(counted || known.proves(reader.off, &f)) {
			r.rewrite(&f, reader.bytes(f.size()))
			reader.skip(&f)
			continue
		}
		if !counted {
			q.state.add(&f)
		}
		next = max(next, f.end())
		reader.skip(&f)
		if last {
			s.end.Store(reader.off)
			s.newest.Store(max(s.newest.Load(), f.received))
		}
	}
}

// behindCheckpoint returns the offset in s from which on the checkpoint does not know it,
// and the seq that comes there. What is before was synced, and is looked at when it is
// delivered, as in the segments that the checkpoint holds in full. So a queue that was
// closed has nothing to read at its next start.
//
// A frame behind it may have no records and a lower seq: it was the tail of a log that
// had lost its end, for which that seq was raised.
func (r *recovery) behindCheckpoint(s *foundSegment) (off int64, next uint64) {
	if c := r.checkpoint; r.hasCheck && c.Epoch == s.epoch && c.End <= s.size.Load() {
		return max(c.End, segmentHeaderSize), max(c.NextSeq, s.firstSeq)
	}
	return segmentHeaderSize, s.firstSeq
}

// rewrite gives the frame f, which is b, to the committer, as part of its first commit.
func (r *recovery) rewrite(f *frame, b []byte) {
	r.tailRecords += f.count
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

// findExtent looks at the last segment behind the checkpoint.
//
// A hole is a torn tail when no frame behind it was written after it was synced:
// nobody was told about it or about what follows, and a power cut may keep the
// blocks of one commit in any order. Then everything from the hole on is cut.
// Otherwise it is damage to acknowledged records, and what follows is kept.
//
// There is always a hole at the end: what the file held before this epoch.
func (r *recovery) findExtent(s *foundSegment, file File) (extent, error) {
	from, next := r.behindCheckpoint(s)
	x := extent{proven: from, commit: -1}
	size := s.size.Load()
	var reader frameReader
	reader.open(file, s.epoch)
	reader.seek(from)
	for {
		hole := reader.off
		torn := reader.claimedSize(size) > 0
		f, err := reader.resync(next, size)
		atEnd := errors.Is(err, io.EOF)
		if err != nil && !atEnd {
			return extent{}, err
		}
		if atEnd || (reader.off > hole && !r.provesDurable(reader, x, next, hole, size)) {
			x.end = hole
			if atEnd && !torn {
				return x, nil
			}
			return x, r.cutTail(s, file, hole)
		}
		x.proven = max(x.proven, f.durable)
		if r.wasDurable(&f) {
			x.commit = max(x.commit, f.durable)
		}
		next = max(next, f.end())
		reader.skip(&f)
	}
}

// wasDurable reports whether a record of f is known to have been durable, and
// with it the whole commit that f was written in.
func (r *recovery) wasDurable(f *frame) bool {
	return f.count > 0 && f.firstSeq < r.knownDurable
}

// provesDurable reports whether a frame from reader on shows that what is at
// offset hole was durable; x is what is known from before it. It works on a copy of the
// reader.
func (r *recovery) provesDurable(reader frameReader, x extent, next uint64, hole, size int64) bool {
	reader.buf = nil
	reader.seek(reader.off)
	for {
		f, err := reader.resync(next, size)
		if err != nil {
			return false
		}
		if f.durable > hole || f.durable <= x.commit || r.wasDurable(&f) {
			return true
		}
		reader.skip(&f)
	}
}

// cutTail drops what a crash left unfinished. What looks like frames is kept in
// quarantine, although nobody was told that it was safe.
func (r *recovery) cutTail(s *foundSegment, file File, from int64) error {
	q := r.q
	to, err := tailEnd(file, s.epoch, from, s.size.Load())
	if err != nil {
		return err
	}
	q.tornTails++
	q.opts.Log.Info("torn tail cut: a crash interrupted a write that nobody was told about", "segment", s.String(), "from", from, "to", to)
	if _, err := q.copyAside(s.segmentName, file, from, to); err != nil {
		q.opts.Log.Warn("torn tail stays in the file: it could not be copied to quarantine", "segment", s.String(), "error", err)
		return nil
	}
	// Cosmetic: what is beyond the end is never read, this only keeps the next
	// Open from finding it again. So a read-only disk does not matter.
	if err := errors.Join(file.Truncate(from), file.Sync()); err != nil {
		q.opts.Log.Warn("torn tail stays in the file", "segment", s.String(), "error", err)
		return nil
	}
	s.size.Store(from)
	return nil
}

// tailEnd returns where the last frame of this epoch ends that begins at from or
// later, whole or, at from, by what its header says.
func tailEnd(file File, epoch uint64, from, size int64) (int64, error) {
	var reader frameReader
	reader.open(file, epoch)
	reader.seek(from)
	end := min(size, from+reader.claimedSize(size))
	for {
		f, err := reader.resync(0, size)
		if errors.Is(err, io.EOF) {
			return end, nil
		}
		if err != nil {
			return 0, err
		}
		reader.skip(&f)
		end = max(end, reader.off)
	}
}
