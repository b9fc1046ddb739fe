package queue

import (
	"errors"
	"io"

	"github.com/docket-export/docket/exporter/queue/segment"
)

// lastSegment is the segment that was being written when the process before ended. A
// frame of it waits until a later one says that it was synced.
type lastSegment struct {
	folding
	segment.Proof
	from    int64 // where the checkpoint ends
	waiting []waitingFrame
	kept    []byte // what is kept of those, which their names alias
}

type waitingFrame struct {
	foundFrame
	at int // in kept
}

// foldLast adds the frames of s, the last segment, to the state, unless the checkpoint
// has them, and returns the seq after its last durable record.
//
// What a later frame says was synced is read by its headers alone, as in foldSegment.
// Behind that stands what was being written in the end, and is looked at in full.
//
// A hole is a torn tail when no frame behind it was written after it was synced:
// nobody was told about it or about what follows, and a power cut may keep the
// blocks of one commit in any order. Then everything from the hole on is cut.
// Otherwise it is damage to acknowledged records, and what follows is kept. There is
// always a hole at the end: what the file held before this epoch.
//
// Before it may be frames that are whole and yet were never synced, and a sync now
// could say yes although one before the crash has failed and dropped them. So those
// go to the committer as if they had just arrived, and are written again elsewhere.
func (r *recovery) foldLast(s *foundSegment) (uint64, error) {
	file, err := r.q.opts.FS.Open(r.q.path(s.String()))
	if err != nil {
		return 0, err
	}
	defer file.Close()
	from, next := r.behindCheckpoint(s)
	s.end.Store(from)
	if r.isCounted(s, from) {
		s.newest.Store(r.checkpoint.Newest)
	}
	l := lastSegment{folding: folding{foundSegment: s, r: r, file: file, next: next}, Proof: segment.NewProof(r.knownDurable, from), from: from}
	if err := l.foldHeaders(from); err != nil {
		return 0, err
	}
	if err := l.foldRest(); err != nil {
		return 0, err
	}
	return l.next, nil
}

// foldHeaders adds the frames from offset from on that a later one proves, as far as
// their headers follow each other.
func (l *lastSegment) foldHeaders(from int64) error {
	var reader segment.Reader
	size, next := l.size.Load(), l.next
	reader.OpenHeaders(l.file, l.Epoch, from, size)
	for {
		f, err := reader.NextHeader(next, size)
		if errors.Is(err, io.EOF) || segment.IsDamage(err) {
			return nil
		}
		if err != nil {
			return err
		}
		next = max(next, f.End())
		l.take(foundFrame{Frame: f, hole: reader.Off, off: reader.Off}, reader.Bytes(f.HeaderLen))
		reader.Skip(&f)
	}
}

// foldRest goes on behind what was added, up to the end of the log.
func (l *lastSegment) foldRest() error {
	if n := len(l.waiting); n > 0 { // by their headers
		last := &l.waiting[n-1]
		l.kept = make([]byte, 0, last.off+int64(last.Size())-l.waiting[0].off)
		l.waiting = l.waiting[:0]
	}
	var reader segment.Reader
	reader.Open(l.file, l.Epoch)
	reader.MoveTo(l.end.Load())
	size, next := l.size.Load(), l.next
	for {
		hole := reader.Off
		reader.Release() // else there may be no room for a header
		torn := reader.ClaimedSize(size) > 0
		f, err := reader.Resync(next, size)
		atEnd := errors.Is(err, io.EOF)
		if err != nil && !atEnd {
			return err
		}
		if atEnd || (reader.Off > hole && !l.IsOfHole(reader, next, hole, size)) {
			l.rewrite()
			if atEnd && !torn {
				return nil
			}
			return l.cutTail(hole, hole)
		}
		if reader.Off > hole {
			l.Proven = max(l.Proven, hole)
			if l.EndsIn(hole, reader, &f, size) {
				l.Proven = f.Durable
				l.settle()
				l.missing(&foundFrame{Frame: f, hole: hole, off: reader.Off})
				return l.cutTail(hole, reader.Off)
			}
		}
		next = max(next, f.End())
		l.take(foundFrame{Frame: f, hole: hole, off: reader.Off}, reader.Bytes(f.Size()))
		reader.Skip(&f)
	}
}

// take adds to the state what f proves, and f itself or, if nothing proves that yet,
// lets f wait with a copy of b, which is its header or the whole.
func (l *lastSegment) take(f foundFrame, b []byte) {
	l.r.newest = max(l.r.newest, f.Received)
	l.Note(&f.Frame)
	l.settle()
	if len(l.waiting) == 0 && l.wasSynced(&f) {
		l.add(&f)
		return
	}
	if len(l.waiting) == 0 {
		l.kept = l.kept[:0]
	}
	at := len(l.kept)
	l.kept = append(l.kept, b...)
	f.Alias(l.kept[at:])
	l.waiting = append(l.waiting, waitingFrame{f, at})
}

// settle adds what waits to the state, as far as it was synced.
func (l *lastSegment) settle() {
	n := 0
	for n < len(l.waiting) && l.wasSynced(&l.waiting[n].foundFrame) {
		l.add(&l.waiting[n].foundFrame)
		n++
	}
	l.waiting = append(l.waiting[:0], l.waiting[n:]...)
}

// wasSynced reports whether f was synced for certain.
func (l *lastSegment) wasSynced(f *foundFrame) bool {
	return l.isCounted(f) || l.Holds(f.off, &f.Frame)
}

func (l *lastSegment) add(f *foundFrame) {
	l.fold(f)
	l.end.Store(f.off + int64(f.Size()))
	l.newest.Store(max(l.newest.Load(), f.Received))
}

// rewrite gives the frames that wait to the committer, as its first commit. What is
// missing before them has to be reported now: they get other places, but not other seqs.
func (l *lastSegment) rewrite() {
	if len(l.waiting) == 0 {
		return
	}
	l.missing(&l.waiting[0].foundFrame)
	p, first := l.r.q.pending, l.waiting[0].at
	p.buf = l.kept[first:]
	for i := range l.waiting {
		l.r.tailRecords += l.waiting[i].Count
		p.frames = append(p.frames, pendingFrame{at: l.waiting[i].at - first, lines: l.waiting[i].Decided()})
	}
}

// cutTail drops what a crash left unfinished, from offset from on. What looks like frames
// is kept in quarantine, although nobody was told that it was safe. The log ends at hole.
func (l *lastSegment) cutTail(hole, from int64) error {
	q, s, file := l.r.q, l.foundSegment, l.file
	to, err := segment.TailEnd(file, s.Epoch, from, s.size.Load())
	if err != nil {
		return err
	}
	q.tornTails++
	q.opts.Log.Info("torn tail cut: a crash interrupted a write that nobody was told about", "segment", s.String(), "from", from, "to", to)
	if _, err := q.copyAside(s.Name, file, from, to); err != nil {
		q.opts.Log.Warn("torn tail stays in the file: it could not be copied to quarantine", "segment", s.String(), "error", err)
		return nil
	}
	if l.Proven >= hole && l.Proven > l.from {
		return nil // by a header of the tail, which the next Open needs if there is no checkpoint then
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
