package exporter

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/exporter/deadletter"
	"github.com/docket-export/docket/sinks"
)

// hook is an error that does something when its text is asked for: when a letter is made
// of it, which is behind the last look at whether the delivery was given up.
type hook struct{ do func() }

func (h hook) Error() string {
	h.do()
	return "400"
}

// A letter is purged at the moment at which the destination rejects it again: it must not
// come back, for the account counts it as given up. The others that were under way with
// it are delivered.
func TestPurgedLetterDoesNotComeBack(t *testing.T) {
	for name, rejected := range map[string][]int{"alone": {0}, "with another": {0, 1}} {
		t.Run(name, func(t *testing.T) {
			s := &pickySink{poison: []uint64{2, 4}, names: true}
			var purged atomic.Bool
			var d *delivery
			f := &funcSink{send: func(ctx context.Context, b sinks.Batch) error {
				if b.Items[0].Late != sinks.Redriven || purged.Load() {
					return s.Send(ctx, b)
				}
				return &sinks.Failure{Kind: sinks.Rejected, Items: rejected, Err: hook{func() {
					if purged.Swap(true) {
						return
					}
					if n, err := d.letters.purge([]uint64{2}); n != 1 || err != nil {
						t.Errorf("purge = %d, %v; want 1", n, err)
					}
				}}}
			}}
			d, _ = realDelivery(t, 5, SinkConfig{Config: f}, 0)
			start(t, d)
			await.Until(t, "set aside", func() bool { return d.cursor.Account().DeadLettered == 2 })
			s.set(func() { s.poison = nil })
			if _, err := d.letters.redrive(nil); err != nil {
				t.Fatal(err)
			}
			await.Until(t, "purged", purged.Load)
			await.Until(t, "the others are delivered", func() bool { return slices.Contains(s.seqs(), 4) && d.letters.stats().Redriving == 0 })
			if a, letters := d.cursor.Account(), d.letters.stats().Letters; letters != 0 || a.Dropped != 1 || a.Delivered != 4 {
				t.Errorf("%d letters are left, and the account says %+v; want none, 1 dropped and 4 delivered", letters, a)
			}
			if got := s.seqs(); !slices.Equal(got, []uint64{1, 3, 5, 4}) {
				t.Errorf("delivered %v, want 4 again and not 2", got)
			}
			if got := d.snapshot(); strings.Contains(got.LastError, errPurged.Error()) {
				t.Errorf("a purge is shown as a failure: %+v", got)
			}
		})
	}
}

// A letter whose record is still pending, as when a replay goes over it, is not given up
// by a purge: the record is delivered, and neither the ledger nor the metric says dropped.
func TestPurgeCountsWhatTheSinkHasPassed(t *testing.T) {
	s := &pickySink{poison: []uint64{1, 2}, names: true}
	d, _ := realDelivery(t, 3, SinkConfig{Config: &funcSink{send: s.Send}}, 0)
	start(t, d)
	await.Until(t, "set aside", func() bool { return d.cursor.Account().DeadLettered == 2 && d.cursor.Account().Next == 4 })
	pending := deadletter.Letter{Seq: 4, Record: []byte("{}"), Reason: "400"}
	if err := d.letters.add([]deadletter.Letter{pending}); err != nil {
		t.Fatal(err)
	}
	if n, err := d.letters.purge(nil); n != 3 || err != nil {
		t.Errorf("purge = %d, %v; want 3", n, err)
	}
	if a, purged := d.cursor.Account(), d.metrics.droppedPurged.Load(); a.Dropped != 2 || purged != 2 {
		t.Errorf("the ledger says %d dropped and the metric %d purged, want 2 each", a.Dropped, purged)
	}
}
