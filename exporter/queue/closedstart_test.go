package queue

import (
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/internal/disk"
)

// readCountFS counts what is read of segments.
type readCountFS struct {
	disk.FS
	bytes atomic.Int64
}

func (r *readCountFS) Open(name string) (disk.File, error) {
	f, err := r.FS.Open(name)
	if _, ok := segment.ParseName(filepath.Base(name)); ok && err == nil {
		f = &readCountFile{f, r}
	}
	return f, err
}

type readCountFile struct {
	disk.File
	fs *readCountFS
}

func (f *readCountFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	f.fs.bytes.Add(int64(n))
	return n, err
}

// The positions file of a queue that was closed holds all that its segments add up to,
// so the next start takes no longer for a large last segment than for a small one.
func TestStartAfterCloseReadsNoFrames(t *testing.T) {
	dir := t.TempDir()
	q := open(t, Options{Directory: dir, SegmentBytes: 16 << 20})
	large := strings.Repeat("x", 1<<20)
	for range 10 {
		store(t, q, chunk(large))
	}
	closeQueue(t, q)

	fsys := &readCountFS{FS: disk.OS("")}
	q = open(t, Options{Directory: dir, SegmentBytes: 16 << 20, FS: fsys})
	// The header of the segment, and a buffer behind the end to see that nothing is there.
	if got, want := fsys.bytes.Load(), int64(segment.ReadSize+segment.HeaderSize); got > want {
		t.Errorf("Open read %d bytes of segments, want at most %d of 10 MiB", got, want)
	}
	if got := len(drain(t, q, cursorOf(t, q, "a"))); got != 10 {
		t.Errorf("got %d records, want 10", got)
	}
}
