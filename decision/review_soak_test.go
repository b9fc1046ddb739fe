//go:build soak

package decision_test

import (
	"runtime"
	"testing"

	"github.com/docket-export/docket/decision"
)

// A reader takes no more memory than it says, whatever comes.
func TestReviewReaderIsBounded(t *testing.T) {
	const bound = 3 << 20 // 1.2 MiB, and as much again while a buffer grows
	for name, write := range floods(20 << 20) {
		t.Run(name, func(t *testing.T) {
			r := decision.NewReviewReader(decision.ContentObject, decision.ContentOldObject, decision.ContentPatch)
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			write(r)
			runtime.GC()
			runtime.ReadMemStats(&after)
			if got := int64(after.HeapAlloc) - int64(before.HeapAlloc); got > bound {
				t.Errorf("got %d bytes held, want %d at most", got, bound)
			}
			r.Reset()
			runtime.GC()
			runtime.ReadMemStats(&after)
			if got := int64(after.HeapAlloc) - int64(before.HeapAlloc); got > 64<<10 {
				t.Errorf("got %d bytes held after Reset, want few", got)
			}
			runtime.KeepAlive(r)
		})
	}
}
