//go:build soak

package delta

import (
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// maxBytes is what the package says that a standing violation takes, and some more for
// what else is in memory.
const maxBytes = 90

// TestMemory counts what is in memory for each violation that stands: while the run that
// opens them is under way, after it, and after a restart.
func TestMemory(t *testing.T) {
	for _, n := range []int{55_000, 60_000} { // much and little room left in the map
		path := filepath.Join(t.TempDir(), "audit")
		before := heap()
		check := func(when string, keep any) {
			t.Helper()
			grown := int64(heap()) - int64(before)
			runtime.KeepAlive(keep)
			per := (grown - spillBytes*2) / int64(n)
			t.Logf("%d violations, %s: %d bytes each", n, when, per)
			if per > maxBytes {
				t.Errorf("%d violations, %s: got %d bytes each, want at most %d", n, when, per, maxBytes)
			}
		}
		tracker := open(t, path, time.Hour)
		r := tracker.Begin(runID(0))
		for i := range n {
			if _, _, err := r.Observe(nil, line("", i)); err != nil {
				t.Fatal(err)
			}
		}
		check("while they are opened", tracker)
		if _, err := r.End(true, nil); err != nil {
			t.Fatal(err)
		}
		if err := r.Commit(); err != nil {
			t.Fatal(err)
		}
		check("when they stand", tracker)
		check("after a restart", open(t, path, time.Hour))
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC() // what finalizers have kept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
