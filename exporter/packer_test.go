package exporter

import (
	"slices"
	"testing"

	"github.com/docket-export/docket/exporter/filter"
	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/sinks"
)

// A sink that proves completeness hears of every seq: each is an item's, or lies in
// a gap with its reason.
func TestGaps(t *testing.T) {
	when, err := filter.Compile("record.n > 10")
	if err != nil {
		t.Fatal(err)
	}
	lost := []queue.SeqRange{{From: 3, To: 5}, {From: 22, To: 24}}
	for name, tt := range map[string]struct {
		before  queue.Account
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
	} {
		t.Run(name, func(t *testing.T) {
			k := packer{gaps: true, before: tt.before, filter: tt.filter, lost: func() []queue.SeqRange { return lost }, filterFailed: func(err error) { t.Error(err) }}
			if got := k.pack(tt.records).batch.Gaps; !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// A record that the filter cannot judge is delivered, and counted.
func TestUnjudgeableRecordIsDelivered(t *testing.T) {
	when, err := filter.Compile(`record.missing == "deny"`)
	if err != nil {
		t.Fatal(err)
	}
	counted := 0
	k := packer{filter: when, filterFailed: func(error) { counted++ }}
	p := k.pack(records(1, 3))
	if len(p.batch.Items) != 3 || p.filtered != 0 || counted != 3 {
		t.Errorf("%d delivered, %d filtered, %d counted as errors; want 3, 0 and 3", len(p.batch.Items), p.filtered, counted)
	}
}
