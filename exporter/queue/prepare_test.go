package queue

import (
	"testing"

	"github.com/docket-export/docket/internal/disk"
)

// While large commits come the next segment's file is made, which reserves its space,
// and not written: that would take as much from the disk as the commits do.
func TestPreparingRests(t *testing.T) {
	s := &segmentPool{fsys: disk.OS(""), dir: t.TempDir(), size: 2 * prewriteBytes}
	t.Cleanup(s.close)
	for i, step := range []struct {
		resting, done bool
		written       int64
	}{
		{resting: true},
		{resting: true},
		{written: prewriteBytes},
		{resting: true, written: prewriteBytes},
		{done: true, written: 2 * prewriteBytes},
		{resting: true, done: true, written: 2 * prewriteBytes},
	} {
		done, err := s.prepare(true, step.resting)
		must(t, err)
		if s.next == nil || s.next.written != step.written || done != step.done {
			t.Fatalf("step %d: got %+v, done %t, want %d bytes written, done %t", i, s.next, done, step.written, step.done)
		}
		if size, err := s.next.Size(); err != nil || size != s.size {
			t.Fatalf("step %d: the file has %d bytes (%v), want all %d", i, size, err, s.size)
		}
	}
}
