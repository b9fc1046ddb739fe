package queue

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/exporter/queue/inspect"
	"github.com/docket-export/docket/exporter/queue/segment"
)

// live is the queue q as the tools for one at rest see it.
func live(t *testing.T, q *Queue) *inspect.Queue {
	t.Helper()
	found, err := q.Survey()
	must(t, err)
	o, err := inspect.OfLive(q.opts.Directory, q.Files(), found)
	must(t, err)
	return o
}

// lookedAt is everything that o can read, and what it says of the rest.
func lookedAt(t *testing.T, o *inspect.Queue) (records, found []string, c inspect.Contents) {
	t.Helper()
	must(t, o.Read(t.Context(), everything, func(r Record) error {
		records = append(records, fmt.Sprintf("%d:%s", r.Seq, r.Data))
		return nil
	}, func(f inspect.Finding) error {
		found = append(found, f.String())
		return nil
	}))
	c, err := o.Contents(t.Context())
	must(t, err)
	return records, found, c
}

// A queue at work looks as it does at rest: its records, what damage has taken, its segments
// and its accounts.
func TestLiveQueueLooksAsAtRest(t *testing.T) {
	opts, first, last := stored(t, true)
	flip(t, first.path, first.at[2]-4) // record 2
	zero(t, last.path, last.at[1], last.at[3])
	opts.Retain.MaxBytes = 1 << 20
	q := open(t, opts)
	for _, sink := range []string{"a", "b"} {
		drain(t, q, cursorOf(t, q, sink)) // which meets the damage
	}
	storeNumbered(t, q, 9, 20, 3)
	prepared(t, q)
	records, found, c := lookedAt(t, live(t, q))
	closeQueue(t, q)
	wantRecords, wantFound, want := lookedAt(t, offline(t, opts))
	equal(t, "records", records, wantRecords)
	equal(t, "records", records, slices.Concat(numbered(1, 1), numbered(3, 5), numbered(8, 20)))
	equal(t, "findings", found, wantFound)
	if len(found) != 2 {
		t.Errorf("got findings %q, want two", found)
	}
	for i := range want.Segments {
		want.Segments[i].Size = c.Segments[i].Size // what is closed is cut to what it uses
	}
	if got, want := fmt.Sprintf("%+v", c.Segments), fmt.Sprintf("%+v", want.Segments); got != want {
		t.Errorf("segments: got\n%s\nwant\n%s", got, want)
	}
	if c.ID != want.ID || c.FirstSeq != 1 || c.LastSeq != 20 || want.FirstSeq != 1 || want.LastSeq != 20 ||
		c.Positions.Producers != want.Positions.Producers || c.Positions.Sources["test"].Stored != want.Positions.Sources["test"].Stored ||
		!slices.Equal(c.Positions.Lost, want.Positions.Lost) || c.Sinks["a"] != want.Sinks["a"] || c.Sinks["b"] != want.Sinks["b"] {
		t.Errorf("got\n%+v\nwant\n%+v", c, want)
	}
}

// While a reader is at work its segments go: it reads on the one that it has open, whose space
// counts until it is closed, is told what is gone, and holds up nothing meanwhile.
func TestSegmentsGoUnderAReader(t *testing.T) {
	const perSegment, segmentBytes = 25, 3 * segment.ReadSize // more than a reader has read ahead
	opts := Options{Directory: t.TempDir(), SegmentBytes: segmentBytes, MaxBytes: 12 * segmentBytes, Retain: Retain{MaxBytes: 8 * segmentBytes}}
	q := open(t, opts)
	c := cursorOf(t, q, "a")
	record := func(seq uint64) string {
		return fmt.Sprintf("%d:%s", seq, strings.Repeat("x", segmentBytes/perSegment))
	}
	deliver := func(n int) {
		for range n {
			seq := q.LastSeq() + 1
			store(t, q, chunk(record(seq)))
			drain(t, q, c)
			must(t, c.Ack(seq))
		}
	}
	deliver(5 * perSegment)
	o, last := live(t, q), q.LastSeq()
	var next, gone uint64 = 1, 0
	must(t, o.Read(t.Context(), everything, func(r Record) error {
		if next == 1 {
			before := q.Stats().FirstSeq
			deliver(12 * perSegment)
			await.Until(t, "segments go", func() bool { return q.Stats().FirstSeq > before+4*perSegment })
			q.mu.Lock()
			held := q.space.leaving
			q.mu.Unlock()
			if held < segmentBytes {
				t.Errorf("%d bytes of removed files count, want those of the open one", held)
			}
		}
		if string(r.Data) != record(r.Seq) || r.Seq != next {
			t.Fatalf("record %d: got %.20q after record %d", r.Seq, r.Data, next-1)
		}
		next++
		return nil
	}, func(f inspect.Finding) error {
		if f.Kind != "Removed" || f.Severity != inspect.Note || f.Lost.From != next {
			t.Fatalf("got %v after record %d, want what was removed", f, next-1)
		}
		next, gone = f.Lost.To, gone+f.Lost.Size()
		return nil
	}))
	if next != last+1 || gone < 2*perSegment {
		t.Errorf("got to record %d of %d with %d gone, want all, most of them gone", next-1, last, gone)
	}
}
