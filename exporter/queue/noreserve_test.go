package queue

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/internal/disk"
)

// noReserveFS cannot reserve space, and has room for so many bytes in segments.
type noReserveFS struct {
	disk.FS
	mu   sync.Mutex
	room int64
}

func (f *noReserveFS) Create(name string) (disk.File, error) {
	file, err := f.FS.Create(name)
	if err != nil || !isSegment(name) {
		return file, err
	}
	return &noReserveFile{File: file, fs: f}, nil
}

type noReserveFile struct {
	disk.File
	fs   *noReserveFS
	size int64
}

func (f *noReserveFile) Allocate(int64) error { return errors.ErrUnsupported }

func (f *noReserveFile) WriteAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if more := off + int64(len(p)) - f.size; more > 0 {
		if more > f.fs.room {
			return 0, unix.ENOSPC
		}
		f.fs.room -= more
		f.size += more
	}
	return f.File.WriteAt(p, off)
}

// Where space cannot be reserved a large commit may meet the full disk in the middle of
// a segment. It says why, and nothing is lost when there is room again.
func TestFullDiskThatCannotBeReserved(t *testing.T) {
	fsys := &noReserveFS{FS: disk.OS(""), room: 5 << 20}
	dir := t.TempDir()
	q := open(t, Options{Directory: dir, SegmentBytes: 4 << 20, FS: fsys})
	large := strings.Repeat("x", 1<<20)
	const n = 10
	var appending sync.WaitGroup
	appending.Go(func() { // waits for the commits
		for range n {
			if err := q.Append(t.Context(), chunk(large), nil); err != nil {
				t.Errorf("Append: %v", err)
				return
			}
		}
	})
	await.Until(t, "the disk is full", func() bool { return errors.Is(q.Stats().Err, unix.ENOSPC) })
	stored := q.LastSeq() // a smaller commit may still find room
	if got := len(drain(t, q, cursorOf(t, q, "a"))); got < int(stored) || got == n {
		t.Errorf("got %d records on the full disk, want %d or a few more", got, stored)
	}
	fsys.mu.Lock()
	fsys.room = 1 << 30
	fsys.mu.Unlock()
	await.Until(t, "all is stored", func() bool { return q.LastSeq() == n })
	appending.Wait()
	if h := q.Stats(); h.Err != nil {
		t.Errorf("health: got %v, want none", h.Err)
	}
	closeQueue(t, q)
	q = open(t, Options{Directory: dir, SegmentBytes: 4 << 20})
	if got := len(drain(t, q, cursorOf(t, q, "b"))); got != n {
		t.Errorf("got %d records after a restart, want %d", got, n)
	}
}
