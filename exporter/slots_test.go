package exporter

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/sinks"
)

// The dead letters are full: nothing overtakes the batch that waits for room, and letters
// that are redriven are sent in its slot and make room.
func TestRedriveMakesRoomForABatchThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent []string
		f := &funcSink{}
		f.send = func(_ context.Context, b sinks.Batch) error {
			sent = append(sent, fmt.Sprint(b.Items[0].Late, b.Items[0].Seq))
			if b.Items[0].Seq <= 2 && b.Items[0].Late == sinks.OnTime {
				return reject(0)
			}
			return nil
		}
		c := &fakeCursor{batches: [][]queue.Record{records(1, 1), records(2, 2), records(3, 3)}}
		d := newTestDelivery(t, SinkConfig{Config: f}, c, slog.New(slog.DiscardHandler))
		d.letters.options.MaxBytes = 400 // for one letter
		d.stored = func() uint64 { return 10_000 }
		start(t, d)
		time.Sleep(time.Hour) // of the bubble's time
		synctest.Wait()
		if slices.Contains(sent, "3") || !slices.Equal(c.acked(), []uint64{1}) {
			t.Errorf("while record 2 waits for room: sent %v, acked %v; want no record 3, and [1]", sent, c.acked())
		}
		sent = nil
		if n, err := d.letters.redrive(nil); n != 1 || err != nil {
			t.Fatalf("redrive = %d, %v; want 1", n, err)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := len(sent); !slices.Contains(sent, "Redriven1") || sent[n-1] != "3" || !slices.Equal(c.acked(), []uint64{1, 2, 3}) {
			t.Errorf("behind a redrive: sent %v, acked %v; want record 1 again, 3 last, and all acked", sent, c.acked())
		}
	})
}

// Dead letters that are to be delivered again do not wait for the end of a backlog.
func TestRedriveComesBetweenBatchesOfABacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &pickySink{poison: []uint64{5}}
		slow := &funcSink{send: func(ctx context.Context, b sinks.Batch) error {
			if b.Items[0].Seq%10 == 1 {
				time.Sleep(time.Second) // of the bubble's time
			}
			return s.Send(ctx, b)
		}}
		c := &fakeCursor{}
		for first := uint64(1); first < 1000; first += 10 {
			c.batches = append(c.batches, records(first, first+9))
		}
		d := newTestDelivery(t, SinkConfig{Config: slow}, c, slog.New(slog.DiscardHandler))
		d.stored = func() uint64 { return 10_000 }
		start(t, d)
		time.Sleep(10 * time.Second) // of the bubble's time
		s.set(func() { s.poison = nil })
		if _, err := d.letters.redrive(nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if !slices.Contains(s.seqs(), 5) {
			t.Errorf("record 5 is not delivered again within 10 s, and %d others are", len(s.seqs()))
		}
	})
}
