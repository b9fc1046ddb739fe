package queue

import (
	"fmt"
	"math"
	"path/filepath"
	"sync/atomic"

	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/internal/disk"
)

// liveSegment is one file of frames. Everything below end is durable and never
// changes again. It holds no open file: the committer and every reader have
// their own, so that a segment can be removed while it is still read.
type liveSegment struct {
	segment.Name

	// end is the offset after the last durable frame. Written by the committer,
	// read by cursors.
	end atomic.Int64
	// until is the seq at which the next segment takes over. Frames at or
	// beyond it, left behind by a failed commit, are not this segment's to
	// deliver. MaxUint64 while the segment is the last one.
	until atomic.Uint64
	// size is that of the file: more than end.
	size atomic.Int64
	// newest is when the last record was received, or a little later; Unix
	// nanoseconds, 0: unknown.
	newest atomic.Int64
	// damaged says that something in the segment cannot be read: it moves to quarantine
	// instead of being removed.
	damaged atomic.Bool

	// The rest is guarded by Queue.mu.

	// sealed says that nothing is added any more, and that a checkpoint which
	// covers the segment is under way.
	sealed bool
	// gone says that the segment is no longer part of the queue.
	gone bool
	// readers is how many have the file open.
	readers int
	// trimmed says that the file was cut to what the segment uses.
	trimmed bool
	// released says that the segment is needed for something else than Retain.
	released bool
}

func newSegment(name segment.Name, end, size int64) *liveSegment {
	s := &liveSegment{Name: name}
	s.end.Store(end)
	s.size.Store(size)
	s.until.Store(math.MaxUint64)
	return s
}

// fits reports whether s, made for so many bytes, has room for a commit of size bytes. The
// first one always has: its file was made large enough.
func (s *liveSegment) fits(size int, bytes int64) bool {
	end := s.end.Load()
	return end == segment.HeaderSize || end+int64(size) <= bytes
}

// nameSegment gives the file of a segment its name, durably. So a segment that is
// found under its own name has taken over from the one before it, and whatever a
// crash leaves under another counts for nothing.
func nameSegment(fsys disk.FS, dir, from string, name segment.Name) error {
	err := fsys.Rename(filepath.Join(dir, from), filepath.Join(dir, name.String()))
	if err == nil {
		err = fsys.SyncDir(dir)
	}
	if err != nil {
		return fmt.Errorf("segment %s: name: %w", name, err)
	}
	return nil
}
