package exporter

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/sinks"
)

// funcSink is a sink made of a function.
type funcSink struct {
	sinks.Config
	send func(context.Context, sinks.Batch) error
}

func (s *funcSink) Open(context.Context, sinks.Env) (sinks.Sink, error) { return s, nil }
func (s *funcSink) Close(context.Context) error                         { return nil }
func (s *funcSink) Send(ctx context.Context, b sinks.Batch) error       { return s.send(ctx, b) }

// reject is the answer of a destination that accepts other records.
func reject(items ...int) error {
	return &sinks.Failure{Kind: sinks.Rejected, Items: items, Taken: true, Said: sinks.Answer{Status: "400"}, Err: errors.New("400")}
}

// Record 2 is rejected in the first part of a redrive; while record 4 of the same
// redrive is retried the operator redrives 2 again. When 4 is accepted, 2 must still be
// there: the destination never took it.
func TestRedriveAgainDuringARedrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &pickySink{poison: []uint64{2, 4}, names: true}
		c := &fakeCursor{batches: [][]queue.Record{records(1, 5)}}
		var accepted []uint64
		var phase atomic.Int32
		f := &funcSink{}
		f.send = func(ctx context.Context, b sinks.Batch) error {
			if phase.Load() == 0 {
				return s.Send(ctx, b)
			}
			if phase.Load() == 1 { // 2 is rejected; 4 meets an outage
				if b.Items[0].Seq == 2 {
					return reject(0)
				}
				return errNet
			}
			if phase.Load() == 2 {
				if b.Items[0].Seq == 2 {
					return errNet // still never accepted
				}
				for _, it := range b.Items {
					accepted = append(accepted, it.Seq)
				}
				return nil
			}
			return nil
		}
		d := newTestDelivery(t, SinkConfig{Config: f}, c, slog.New(slog.DiscardHandler))
		start(t, d)
		synctest.Wait()
		phase.Store(1)
		if n, _ := d.letters.redrive(nil); n != 2 {
			t.Fatal("redrive", n)
		}
		time.Sleep(10 * time.Minute)
		if n, _ := d.letters.redrive([]uint64{2}); n != 1 { // "Kept" again: the operator redrives it
			t.Fatal("second redrive", n)
		}
		phase.Store(2)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		list, err := d.letters.list()
		if err != nil || len(list) != 1 || list[0].Seq != 2 {
			t.Errorf("accepted %v, letters %+v, counted as redelivered %d; want letter 2 kept: the destination has never accepted it", accepted, list, c.redriven)
		}
	})
}

// An account that waits for the disk must not hold up /status or /metrics.
type stuckSync struct {
	*fakeCursor
	entered, leave chan struct{}
}

func (c stuckSync) Redelivered(context.Context, uint64, func() error) error {
	select {
	case c.entered <- struct{}{}:
	case <-c.leave:
	}
	<-c.leave
	return errors.New("cursors: sync: input/output error")
}

func TestStatusDuringStuckSync(t *testing.T) {
	s := &pickySink{poison: []uint64{2}}
	c := &fakeCursor{batches: [][]queue.Record{records(1, 3)}}
	d := newTestDelivery(t, SinkConfig{Config: s}, c, slog.New(slog.DiscardHandler))
	stuck := stuckSync{c, make(chan struct{}), make(chan struct{})}
	d.letters.account = stuck
	start(t, d)
	defer close(stuck.leave)
	await.Until(t, "settled", func() bool { return len(c.acked()) > 0 })
	s.set(func() { s.poison = nil })
	if n, err := d.letters.redrive(nil); n != 1 || err != nil {
		t.Fatalf("redrive = %d, %v; want 1", n, err)
	}
	<-stuck.entered
	done := make(chan SinkStatus, 1)
	go func() { done <- d.snapshot() }()
	select {
	case <-done:
	case <-time.After(await.Left(t)):
		t.Error("the status of the sink does not come: it waits for the sync")
	}
}

// A queue that cannot be read: one log entry, one state.
func TestQueueErrorIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c := &fakeCursor{failures: repeat(errors.New("cursor test: read: input/output error"), 50)}
		d := newTestDelivery(t, SinkConfig{Config: &pickySink{}}, c, slog.New(slog.NewTextHandler(&log, nil)))
		start(t, d)
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		fails, works := strings.Count(log.String(), "delivery fails"), strings.Count(log.String(), "delivery works again")
		if fails != 1 || works != 1 {
			t.Errorf("50 failed reads in a row are logged as %d failures and %d recoveries, want 1 and 1", fails, works)
		}
	})
}

// While all batches fail the state is not Active, and the log does not say that it works.
func TestSinkThatNeverWorkedIsNotSaidToWorkAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		f := &funcSink{}
		f.send = func(ctx context.Context, b sinks.Batch) error { time.Sleep(time.Millisecond); return errNet }
		var batches [][]queue.Record
		for i := uint64(1); i < 20; i++ {
			batches = append(batches, records(i, i))
		}
		c := &trickle{fakeCursor: fakeCursor{batches: batches}}
		d := newTestDelivery(t, SinkConfig{Config: f}, &c.fakeCursor, slog.New(slog.NewTextHandler(&log, nil)))
		d.cursor = c
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Hour, cancel)
		d.run(ctx)
		if n := strings.Count(log.String(), "delivery works again"); n > 0 {
			t.Errorf("a sink that never took anything is said to work again %d times", n)
		}
	})
}

type trickle struct{ fakeCursor }

func (c *trickle) Next(ctx context.Context, l queue.Limits) ([]queue.Record, error) {
	time.Sleep(100 * time.Millisecond)
	return c.fakeCursor.Next(ctx, l)
}

// Purging a letter that is being redriven in vain frees the sink.
func TestPurgeEndsARedriveInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &funcSink{}
		var live []uint64
		f.send = func(_ context.Context, b sinks.Batch) error {
			switch {
			case b.Items[0].Late == sinks.Redriven:
				return errNet // this one record makes the destination answer 500
			case b.Items[0].Seq == 1:
				return reject(0)
			}
			for _, it := range b.Items {
				live = append(live, it.Seq)
			}
			return nil
		}
		c := &pushed{fakeCursor: fakeCursor{}, ch: make(chan []queue.Record, 5)}
		d := newTestDelivery(t, SinkConfig{Config: f}, &c.fakeCursor, slog.New(slog.DiscardHandler))
		d.cursor = c
		c.ch <- records(1, 1)
		start(t, d)
		synctest.Wait()
		d.letters.redrive(nil)
		time.Sleep(time.Hour)
		c.ch <- records(2, 3)
		if n, err := d.letters.purge(nil); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if len(live) != 2 {
			t.Errorf("a day after the only letter was purged: live records delivered %v, want [2 3]", live)
		}
	})
}

type pushed struct {
	fakeCursor
	ch chan []queue.Record
}

func (c *pushed) Next(ctx context.Context, _ queue.Limits) ([]queue.Record, error) {
	select {
	case r := <-c.ch:
		return r, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
