package queue

import (
	"strings"
	"testing"
	"time"

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

// A file that was left unwritten because of large commits is written once they end.
func TestPreparingGoesOnAfterLargeCommits(t *testing.T) {
	q := open(t, Options{Directory: t.TempDir(), SegmentBytes: 4 << 20})
	prepared(t, q)
	store(t, q, chunk("a small record"))
	if q.commitsAreLarge() {
		t.Error("a commit of one small record counts as large")
	}
	// The second is for the next segment, which takes the prepared file.
	large := strings.Repeat("x", 3<<20)
	for range 2 {
		store(t, q, chunk(large))
	}
	q.mu.Lock()
	last := q.lastLarge
	q.mu.Unlock()
	if last.IsZero() || time.Since(last) < 0 {
		t.Errorf("after commits of 3 MiB the last large one was at %s", last)
	}
	prepared(t, q)
}
