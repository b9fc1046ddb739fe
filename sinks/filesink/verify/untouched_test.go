package verify

import (
	"fmt"
	"slices"
	"testing"

	"github.com/docket-export/docket/sinks"
)

func TestUntouched(t *testing.T) {
	for _, suffix := range []string{"", ".gz", ".zst"} {
		b := newBuilder(t)
		standard(b, suffix)
		b.add(file{name: "b.ndjson" + suffix, queue: queueB, from: 7, to: 9})
		r := mustRun(t, b.dir, Options{})
		if r.Break != nil {
			t.Fatalf("%q: got %+v", suffix, r.Break)
		}
		if r.Lines != 6 || r.Files != 4 || r.Records != 16 || r.RemovedFiles != 1 || r.RemovedRecords != 5 || len(r.Notes) > 0 {
			t.Errorf("%q: got %+v, want 6 lines, 4 files of 16 records, 1 of 5 removed, no notes", suffix, r)
		}
		if want := map[sinks.GapReason]uint64{sinks.Filtered: 1, sinks.Dropped: 1}; fmt.Sprint(r.Gaps) != fmt.Sprint(want) {
			t.Errorf("got gaps %v, want %v", r.Gaps, want)
		}
		if want := []Queue{{queueA, 1, 20}, {queueB, 7, 9}}; !slices.Equal(r.Queues, want) {
			t.Errorf("got queues %v, want %v", r.Queues, want)
		}
		if r.Head != b.chain.Previous || !r.LastFinished.Equal(when) {
			t.Errorf("got head %s of %s, want %s of %s", r.Head, r.LastFinished, b.chain.Previous, when)
		}
	}
}
