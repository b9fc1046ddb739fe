package queue

import (
	"path/filepath"
	"slices"

	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
)

// Survey is what the queue has now, as the tools for a queue at rest find it in the files.
// Its segments end where they are durable, and are read through Files.
func (q *Queue) Survey() (*state.Survey, error) {
	s, err := state.List(q.opts.FS, q.opts.Directory)
	if err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	next := q.durable.Load() + 1
	s.Queue, s.Lineage, s.KnownDurable, s.Accounts = q.id, q.lineage, next, q.accounts()
	s.HasCheckpoint, s.Known = true, q.state.Producers.Len()
	s.Checkpoint = state.Checkpoint{Queue: q.id, NextSeq: next}
	s.Checkpoint.Sources, s.Checkpoint.Lost = q.sourceTallies(), slices.Clone(q.state.Lost)
	s.Segments = nil
	for _, live := range *q.segments.Load() {
		end := live.end.Load()
		s.Segments = append(s.Segments, &segment.Stored{
			Name: live.Name, Size: live.size.Load(), End: end, NamedEnd: end, Exact: true,
			Until: min(live.until.Load(), next), Newest: live.newest.Load(),
		})
	}
	return s, nil
}

// sourceTallies returns a copy of the counts of each source. Callers hold mu.
func (b *books) sourceTallies() map[string]*state.SourceTally {
	all := make(map[string]*state.SourceTally, len(b.state.Sources))
	for name, t := range b.state.Sources {
		copied := t.Clone()
		all[name] = &copied
	}
	return all
}

// Files reads the files that Survey has named, beside the sinks. It keeps no file open
// between two reads, and does not keep a segment from being removed. A read fails with
// segment.ErrGone once the segment is no longer part of the queue.
func (q *Queue) Files() disk.FS { return liveFiles{q.opts.FS, q} }

type liveFiles struct {
	disk.FS
	q *Queue
}

// Open implements disk.FS.
func (l liveFiles) Open(path string) (disk.File, error) {
	name, isSegment := segment.ParseName(filepath.Base(path))
	if !isSegment || filepath.Dir(path) != filepath.Clean(l.q.opts.Directory) {
		return l.OpenRead(path)
	}
	for _, s := range *l.q.segments.Load() {
		if s.Name == name {
			return &liveFile{q: l.q, s: s, path: path}, nil
		}
	}
	return nil, segment.ErrGone
}

// liveFile reads a segment. Only what Scan needs of a file is there.
type liveFile struct {
	disk.File
	q    *Queue
	s    *liveSegment
	path string
}

// ReadAt implements io.ReaderAt. The bytes count only if the segment is part of the queue
// after the read: until then neither its file nor its name is reused.
func (f *liveFile) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.readAt(b, off)
	if gone := f.check(); gone != nil {
		return 0, gone
	}
	if lost := f.q.checkGround(); lost != nil {
		return 0, lost
	}
	return n, err
}

// check fails when the file may be another's by now.
func (f *liveFile) check() error {
	f.q.mu.Lock()
	defer f.q.mu.Unlock()
	switch {
	case f.q.closed:
		return ErrClosed
	case f.s.gone:
		return segment.ErrGone
	}
	return nil
}

func (f *liveFile) readAt(b []byte, off int64) (int, error) {
	file, err := f.q.opts.FS.OpenRead(f.path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	return file.ReadAt(b, off)
}

// Close implements io.Closer.
func (f *liveFile) Close() error { return nil }

// Size implements disk.File.
func (f *liveFile) Size() (int64, error) { return f.s.size.Load(), nil }

// Data implements disk.File.
func (f *liveFile) Data(off int64) (from, to int64, err error) {
	size := f.s.size.Load()
	return min(off, size), size, nil
}

// Prefetch implements disk.File.
func (f *liveFile) Prefetch(int64, int64) {}
