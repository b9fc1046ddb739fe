package queue

import (
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/exporter/queue/inspect"
)

// A look at a queue at rest keeps no exporter from starting. It ends then, goes on once the
// queue is at rest again, and says what was removed meanwhile.
func TestLookKeepsNobodyOut(t *testing.T) {
	opts := Options{Directory: t.TempDir(), SegmentBytes: 1}
	q := open(t, opts)
	storeNumbered(t, q, 1, 12, 3)
	cursorOf(t, q, "a")
	closeQueue(t, q)

	o, err := inspect.OpenToLook(opts.Directory, nil)
	must(t, err)
	defer o.Close()
	q = nil
	var got []string
	err = o.Read(t.Context(), everything, func(r Record) error {
		if q == nil {
			q = open(t, opts)
		}
		got = append(got, string(r.Data))
		return nil
	}, func(f inspect.Finding) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "docket has started") || len(got) == 12 {
		t.Errorf("a docket began: got %v after %d records, want that it has begun", err, len(got))
	}
	if _, err := o.Contents(t.Context()); err == nil || !strings.Contains(err.Error(), "docket has started") {
		t.Errorf("Contents while a docket is at work: got %v", err)
	}
	if _, err := inspect.OpenToLook(opts.Directory, nil); err == nil || !strings.Contains(err.Error(), "in use by") {
		t.Errorf("OpenToLook while a docket is at work: got %v", err)
	}
	c := cursorOf(t, q, "a")
	drain(t, q, c)
	c.Ack(6)
	await.Until(t, "the first segments are removed", func() bool { return q.Stats().FirstSeq > 1 })
	first := q.Stats().FirstSeq
	closeQueue(t, q)

	var removed []inspect.Finding
	got = nil
	err = o.Read(t.Context(), everything, func(r Record) error {
		got = append(got, string(r.Data))
		return nil
	}, func(f inspect.Finding) error {
		removed = append(removed, f)
		return nil
	})
	must(t, err)
	var want []string
	for _, line := range numbered(int(first), 12) {
		_, record, _ := strings.Cut(line, ":")
		want = append(want, record)
	}
	if !slices.Equal(got, want) || len(removed) == 0 || removed[0].Severity != inspect.Note || removed[0].Lost.From != 1 {
		t.Errorf("at rest again: got %q and %v, want %q and that those before were removed", got, removed, want)
	}
}
