package exporter

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/sinks"
)

// slowSink takes each batch after a time of its own, several at once.
type slowSink struct {
	pickySink
	takes  map[uint64]time.Duration // by the first seq of the batch
	most   int                      // at the same time
	active int
}

func (s *slowSink) Open(context.Context, sinks.Env) (sinks.Sink, error) { return s, nil }

func (s *slowSink) Send(ctx context.Context, b sinks.Batch) error {
	s.set(func() { s.active++; s.most = max(s.most, s.active) })
	defer s.set(func() { s.active-- })
	select {
	case <-time.After(s.takes[b.Items[0].Seq]):
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.pickySink.Send(ctx, b)
}

// overwriting hands out records whose bytes are overwritten at the next call, as
// those of the queue are.
type overwriting struct {
	fakeCursor
	before []queue.Record
}

func (c *overwriting) Next(ctx context.Context, lim queue.Limits) ([]queue.Record, error) {
	for _, r := range c.before {
		for i := range r.Data {
			r.Data[i] = '!'
		}
	}
	var err error
	c.before, err = c.fakeCursor.Next(ctx, lim)
	return c.before, err
}

// The place in the queue moves over what is done without a hole: a batch that is
// quicker than the one before it waits.
func TestOverlappingSendsSettleInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowSink{takes: map[uint64]time.Duration{1: time.Minute, 11: time.Second, 21: time.Second, 31: time.Second, 41: time.Second}}
		s.inFlight = 4
		c := &overwriting{fakeCursor: fakeCursor{batches: [][]queue.Record{records(1, 10), records(11, 20), records(21, 30), records(31, 40), records(41, 50)}}}
		d := newTestDelivery(t, SinkConfig{Config: s}, &c.fakeCursor, slog.New(slog.DiscardHandler))
		d.cursor = c
		start(t, d)
		time.Sleep(30 * time.Second) // of the bubble's time
		synctest.Wait()
		var most int
		s.set(func() { most = s.most })
		if got := c.acked(); len(got) != 0 || most != 4 {
			t.Errorf("while the first batch is under way: acked %v, %d at a time; want none and 4", got, most)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := c.acked(); !slices.Equal(got, []uint64{10, 20, 30, 40, 50}) {
			t.Errorf("acked %v, want every batch in order", got)
		}
		for _, it := range s.taken {
			if want := records(it.Seq, it.Seq)[0].Data; string(it.Record) != string(want) {
				t.Fatalf("record %d was overwritten: %s", it.Seq, it.Record)
			}
		}
	})
}

// A stop settles what is done and nothing behind what is not.
func TestStopLeavesNoHole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowSink{takes: map[uint64]time.Duration{1: time.Second, 11: time.Hour, 21: time.Second}}
		s.inFlight = 3
		c := &fakeCursor{batches: [][]queue.Record{records(1, 10), records(11, 20), records(21, 30)}}
		d := newTestDelivery(t, SinkConfig{Config: s}, c, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel) // of the bubble's time
		d.run(ctx)
		if got := c.acked(); !slices.Equal(got, []uint64{10}) {
			t.Errorf("acked %v, want [10]: record 11 is not delivered", got)
		}
	})
}

// The dead letters are full: nothing overtakes the batch that waits for room, and letters
// that are redriven are sent in its slot and make room.
func TestRedriveMakesRoomForABatchThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent []string
		f := &funcSink{inFlight: 1}
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

// Dead letters are kept and redriven the same with several batches at a time.
func TestOverlappingSendsRejectAndRedrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &pickySink{inFlight: 3, poison: []uint64{5, 15, 25}}
		c := &fakeCursor{batches: [][]queue.Record{records(1, 10), records(11, 20), records(21, 30)}}
		d := newTestDelivery(t, SinkConfig{Config: s}, c, slog.New(slog.DiscardHandler))
		start(t, d)
		synctest.Wait()
		if c.outcome.DeadLettered != 3 || len(s.seqs()) != 27 {
			t.Fatalf("%d delivered, outcome %+v", len(s.seqs()), c.outcome)
		}
		s.set(func() { s.poison = nil })
		if _, err := d.letters.redrive([]uint64{5, 25}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := s.seqs(); c.redriven != 2 || len(got) != 29 || c.kept() != 1 {
			t.Errorf("%d delivered, %d of them redriven, %d kept; want 29, 2 and 1", len(got), c.redriven, c.kept())
		}
	})
}

// gate lets Sends through one by one, and says which batches have begun.
type gate struct {
	funcSink
	pass chan struct{} // one for each Send

	mu    sync.Mutex
	begun []uint64 // their first seqs, in order; guarded by mu
}

func newGate(inFlight int) *gate {
	g := &gate{pass: make(chan struct{})}
	g.inFlight = inFlight
	g.send = func(ctx context.Context, b sinks.Batch) error {
		g.mu.Lock()
		g.begun = append(g.begun, b.Items[0].Seq)
		g.mu.Unlock()
		select {
		case <-g.pass:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return g
}

// sent returns the first seqs of the batches that are or were under way, in order. Which
// of those that begin at the same time is first is left to chance.
func (g *gate) sent() []uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inFlight == 1 {
		return slices.Clone(g.begun)
	}
	return slices.Sorted(slices.Values(g.begun))
}

// While a batch is under way the next one of a backlog is made, and only that: it is
// sent when its turn comes, in order.
func TestNextBatchOfABacklogIsMadeAhead(t *testing.T) {
	for _, inFlight := range []int{1, 2} {
		t.Run(fmt.Sprint(inFlight), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGate(inFlight)
				c := &overwriting{fakeCursor: fakeCursor{batches: [][]queue.Record{records(1, 10), records(11, 20), records(21, 30), records(31, 40), records(41, 50)}}}
				d := newTestDelivery(t, SinkConfig{Config: g}, &c.fakeCursor, slog.New(slog.DiscardHandler))
				d.cursor, d.stored = c, func() uint64 { return 10_000 }
				start(t, d)
				synctest.Wait()
				want := []uint64{1, 11}[:inFlight]
				if left := len(c.batches); left != 4-inFlight || !slices.Equal(g.sent(), want) {
					t.Fatalf("%d batches are left, and %v are under way; want %d left and %v under way", left, g.sent(), 4-inFlight, want)
				}
				for range 5 {
					g.pass <- struct{}{}
					synctest.Wait()
				}
				if got := c.acked(); !slices.Equal(got, []uint64{10, 20, 30, 40, 50}) || !slices.Equal(g.sent(), []uint64{1, 11, 21, 31, 41}) {
					t.Errorf("sent %v, acked %v, want every batch in order", g.sent(), got)
				}
			})
		})
	}
}

// A batch that would be small is not made while another is under way: what comes
// meanwhile is to join it.
func TestSmallBatchWaitsForItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(1)
		c := &fakeCursor{batches: [][]queue.Record{records(1, 10), records(11, 20)}}
		d := newTestDelivery(t, SinkConfig{Config: g}, c, slog.New(slog.DiscardHandler))
		d.stored = func() uint64 { return 10 + uint64(d.cfg.Batch.MaxRecords) - 1 }
		start(t, d)
		synctest.Wait()
		if len(c.batches) != 1 {
			t.Errorf("%d batches are left while the first is under way, want 1: it is not full", len(c.batches))
		}
		g.pass <- struct{}{}
		synctest.Wait()
		if got := g.sent(); !slices.Equal(got, []uint64{1, 11}) {
			t.Errorf("sent %v, want the second batch behind the first", got)
		}
	})
}

// Dead letters that are to be delivered again do not wait for the end of a backlog.
func TestRedriveComesBetweenBatchesOfABacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowSink{takes: map[uint64]time.Duration{}, pickySink: pickySink{poison: []uint64{5}}}
		c := &fakeCursor{}
		for first := uint64(1); first < 1000; first += 10 {
			c.batches = append(c.batches, records(first, first+9))
			s.takes[first] = time.Second
		}
		d := newTestDelivery(t, SinkConfig{Config: s}, c, slog.New(slog.DiscardHandler))
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
		s.set(func() {
			if s.most > 1 {
				t.Errorf("%d sends at a time, MaxInFlight says 1", s.most)
			}
		})
	})
}
