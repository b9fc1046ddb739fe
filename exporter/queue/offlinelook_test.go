package queue

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/exporter/queue/inspect"
	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/exporter/queue/state"
)

// A look at a queue at rest keeps no exporter from starting. It reads on then, and says what is
// removed meanwhile.
func TestLookKeepsNobodyOut(t *testing.T) {
	opts := Options{Directory: t.TempDir(), SegmentBytes: 1}
	q := open(t, opts)
	storeNumbered(t, q, 1, 12, 3) // a segment for each commit
	cursorOf(t, q, "a")
	closeQueue(t, q)

	o, err := inspect.OpenToLook(opts.Directory, nil)
	must(t, err)
	defer o.Close()
	q = nil
	var got []string
	var removed []segment.SeqRange
	must(t, o.Read(t.Context(), everything, func(r Record) error {
		got = append(got, fmt.Sprintf("%d:%s", r.Seq, r.Data))
		if q == nil {
			q = open(t, opts)
			c := cursorOf(t, q, "a")
			drain(t, q, c)
			must(t, c.Ack(6))
			await.Until(t, "the first segments are removed", func() bool { return q.Stats().FirstSeq == 7 })
		}
		return nil
	}, func(f inspect.Finding) error {
		if f.Severity != inspect.Note {
			t.Errorf("got %s, want what was removed", f)
		}
		removed = append(removed, f.Lost)
		return nil
	}))
	equal(t, "records", got, slices.Concat(numbered(1, 3), numbered(7, 12)))
	if want := []segment.SeqRange{{From: 4, To: 7}}; !slices.Equal(removed, want) {
		t.Errorf("removed: got %v, want %v", removed, want)
	}
	if _, err := inspect.OpenToLook(opts.Directory, nil); !errors.As(err, new(*state.InUseError)) {
		t.Errorf("OpenToLook while a docket is at work: got %v", err)
	}
}
