package queue

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
)

func files(t *testing.T, dir, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	must(t, err)
	return names
}

// What a crash leaves of a segment that was being begun may hold anything.
func TestUnfinishedFilesAreRemovedAtOpen(t *testing.T) {
	opts := Options{Directory: t.TempDir()}
	leftover := []string{state.BeginPrefix + "3" + disk.NewSuffix}
	for i, name := range leftover {
		content := strings.Repeat("x", minSegmentBytes-i) // no header of a segment, or not its size
		must(t, os.WriteFile(filepath.Join(opts.Directory, name), []byte(content), 0o600))
	}
	q := open(t, opts)
	for _, name := range leftover {
		if _, err := os.Stat(filepath.Join(opts.Directory, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: got %v, want it gone", name, err)
		}
	}
	storeNumbered(t, q, 1, 1, 1)
}

// The files of the queue together stay within MaxBytes, whatever sinks do.
func TestFilesStayWithinMaxBytes(t *testing.T) {
	opts := Options{Directory: t.TempDir(), SegmentBytes: 64 << 10, MaxBytes: 1 << 20, WhenFull: DropOldest}
	q := open(t, opts)
	cursorOf(t, q, "dead")
	for n := range 400 {
		store(t, q, chunk(strings.Repeat("x", 9000)))
		if n%10 == 0 {
			var size int64
			for _, path := range slices.Concat(segmentFiles(t, opts.Directory), files(t, opts.Directory, state.BeginPrefix+"*")) {
				if info, err := os.Stat(path); err == nil {
					size += info.Size()
				}
			}
			if size > opts.MaxBytes {
				t.Fatalf("after %d records: %d bytes on disk, want at most %d", n, size, opts.MaxBytes)
			}
		}
	}
	s := q.Stats()
	if a := s.Cursors["dead"]; a.Dropped == 0 || a.Next-1 != a.Dropped || a.Next < s.FirstSeq {
		t.Errorf("account of the dead sink: %+v, first seq %d: what is gone must be counted as dropped", a, s.FirstSeq)
	}
}
