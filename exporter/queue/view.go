package queue

import (
	"fmt"
	"io/fs"
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
	s.Checkpoint.Damaged = damagedOf(*q.segments.Load())
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

// Files reads the files that Survey has named, beside the sinks. A segment that is removed
// while it is open can be read on, and its space counts until it is closed. Opening it fails
// with fs.ErrNotExist then.
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
	s := l.q.hold(name)
	if s == nil {
		return nil, fmt.Errorf("segment %s: %w", name, fs.ErrNotExist)
	}
	file, err := l.OpenRead(path)
	if err == nil {
		if err = l.q.checkGround(); err != nil { // what has the name now is another queue's
			file.Close()
		}
	}
	if err != nil {
		l.q.release(s)
		return nil, err
	}
	return &heldFile{file, l.q, s}, nil
}

// hold counts the file of a segment as open until release; nil: it is no longer kept.
func (q *Queue) hold(name segment.Name) *liveSegment {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil
	}
	for _, s := range *q.segments.Load() {
		if s.Name == name {
			s.readers++
			return s
		}
	}
	return nil
}

type heldFile struct {
	disk.File
	q *Queue
	s *liveSegment
}

// Close implements io.Closer.
func (f *heldFile) Close() error {
	err := f.File.Close()
	f.q.release(f.s)
	return err
}
