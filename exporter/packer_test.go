package exporter

import (
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/docket-export/docket/exporter/filter"
	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/sinks"
)

// A sink that proves completeness hears of every seq: each is an item's, or lies in
// a gap with its reason.
func TestGaps(t *testing.T) {
	when, err := filter.Compile("record.n > 10")
	if err != nil {
		t.Fatal(err)
	}
	lost := []segment.SeqRange{{From: 3, To: 5}, {From: 22, To: 24}}
	for name, tt := range map[string]struct {
		before  queue.Account
		told    uint64
		filter  *filter.Filter
		records []queue.Record
		want    []sinks.Gap
	}{
		"none":      {before: queue.Account{Next: 1}, records: records(1, 5)},
		"filtered":  {before: queue.Account{Next: 8}, filter: when, records: records(8, 12), want: []sinks.Gap{{From: 3, To: 4, Reason: sinks.Corrupt}, {From: 8, To: 10, Reason: sinks.Filtered}}},
		"corrupt":   {before: queue.Account{Next: 21}, records: slices.Concat(records(21, 21), records(24, 25)), want: []sinks.Gap{{From: 3, To: 4, Reason: sinks.Corrupt}, {From: 22, To: 23, Reason: sinks.Corrupt}}},
		"dropped":   {before: queue.Account{Next: 21}, records: slices.Concat(records(21, 21), records(30, 31)), want: []sinks.Gap{{From: 3, To: 4, Reason: sinks.Corrupt}, {From: 22, To: 23, Reason: sinks.Corrupt}, {From: 24, To: 29, Reason: sinks.Dropped}}},
		"before it": {before: queue.Account{Next: 7, Dropped: 2}, records: records(7, 8), want: []sinks.Gap{{From: 1, To: 2, Reason: sinks.Dropped}, {From: 3, To: 4, Reason: sinks.Corrupt}, {From: 5, To: 6, Reason: sinks.Dropped}}},
		"from now":  {before: queue.Account{Next: 3, Filtered: 2}, records: records(3, 3), want: []sinks.Gap{{From: 1, To: 2, Reason: sinks.Filtered}}},

		// A destination that begins anew has no account of what an earlier one got.
		"anew":                 {before: queue.Account{Next: 10, Delivered: 5, Filtered: 2, Corrupt: 2}, records: records(10, 10)},
		"anew, filtered first": {before: queue.Account{Next: 10, Delivered: 5, Filtered: 2, Corrupt: 2}, filter: when, records: records(10, 12), want: []sinks.Gap{{From: 10, To: 10, Reason: sinks.Filtered}}},
		"anew, by a replay":    {before: queue.Account{Next: 8, Filtered: 7, ReplayTo: 9}, records: records(8, 8)},
		// One that goes on has an account up to told.
		"goes on":               {before: queue.Account{Next: 10, Delivered: 5, Filtered: 4}, told: 9, records: records(10, 10)},
		"goes on, has more":     {before: queue.Account{Next: 10, Delivered: 5, Filtered: 4}, told: 12, records: records(10, 13)},
		"goes on, dropped":      {before: queue.Account{Next: 10, Delivered: 5, Filtered: 2, Dropped: 2}, told: 7, records: records(10, 10), want: []sinks.Gap{{From: 8, To: 9, Reason: sinks.Dropped}}},
		"goes on, corrupt":      {before: queue.Account{Next: 5, Delivered: 1, Filtered: 1, Corrupt: 2}, told: 2, records: records(5, 5), want: []sinks.Gap{{From: 3, To: 4, Reason: sinks.Corrupt}}},
		"goes on, new in queue": {before: queue.Account{Next: 10, Filtered: 9}, told: 7, records: records(10, 10), want: []sinks.Gap{{From: 8, To: 9, Reason: sinks.Filtered}}},
	} {
		t.Run(name, func(t *testing.T) {
			k := packer{gaps: true, before: tt.before, told: tt.told, selects: selection{filter: tt.filter}, lost: func() []segment.SeqRange { return lost }, filterFailed: func(err error) { t.Error(err) }}
			var b batch
			k.pack(&b, tt.records)
			if got := b.Gaps; !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// A record that the filter cannot judge is delivered or withheld, as configured, and
// counted. A withheld one is a gap for a sink that proves what it has.
func TestUnjudgeableRecords(t *testing.T) {
	for onError, want := range map[OnError]struct {
		delivered int
		gaps      []sinks.Gap
	}{
		"":       {delivered: 3}, // of a configuration made in code
		Deliver:  {delivered: 3},
		Withhold: {gaps: []sinks.Gap{{From: 1, To: 3, Reason: sinks.Filtered}}},
	} {
		selects, err := newSelection(SinkConfig{Name: "s", When: `record.missing == "deny"`, OnError: onError})
		if err != nil {
			t.Fatal(err)
		}
		counted := 0
		k := packer{selects: selects, gaps: true, before: queue.Account{Next: 1}, lost: func() []segment.SeqRange { return nil }, filterFailed: func(error) { counted++ }}
		var b batch
		k.pack(&b, records(1, 3))
		if len(b.Items) != want.delivered || int(b.filtered) != 3-want.delivered || counted != 3 || !slices.Equal(b.Gaps, want.gaps) {
			t.Errorf("onError %q: %d delivered, %d filtered, %d counted as errors, gaps %v; want %d, %d, 3 and %v",
				onError, len(b.Items), b.filtered, counted, b.Gaps, want.delivered, 3-want.delivered, want.gaps)
		}
	}
}

// The filter leaves out records of a batch, and another batch as a whole: the account
// counts them as filtered.
func TestFilteredIsNotDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &pickySink{}
		c := &fakeCursor{batches: [][]queue.Record{records(1, 6), records(7, 8)}}
		d := newTestDelivery(t, SinkConfig{Config: s, When: "record.n % 3 == 0"}, c, slog.New(slog.DiscardHandler))
		start(t, d)
		synctest.Wait()
		if want := (queue.Outcome{Filtered: 6}); c.outcome != want || !slices.Equal(s.seqs(), []uint64{3, 6}) || !slices.Equal(c.acked(), []uint64{6, 8}) {
			t.Errorf("delivered %v, settled %v with %+v; want [3 6], and [6 8] with %+v", s.seqs(), c.acked(), c.outcome, want)
		}
	})
}
