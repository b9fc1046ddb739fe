package exporter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/exporter/deadletter"
	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/sinks"
)

// pickySink takes every record but the poisonous ones. It is its own configuration.
type pickySink struct {
	sinks.Config
	names bool // it says which records it rejects

	mu     sync.Mutex
	poison []uint64 // guarded by mu
	fail   error    // what every Send says first; guarded by mu
	taken  []sinks.Item
	gaps   []sinks.Gap
	sends  int
}

func (s *pickySink) Open(context.Context, sinks.Env) (sinks.Sink, error) { return s, nil }

func (s *pickySink) Close(context.Context) error { return nil }

func (s *pickySink) Send(_ context.Context, b sinks.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sends++
	if s.fail != nil {
		return s.fail
	}
	f := &sinks.Failure{Kind: sinks.Rejected, Said: sinks.Answer{Status: "400", Text: "mapper_parsing_exception"}, Err: errors.New("post: answered 400")}
	for i, it := range b.Items {
		if slices.Contains(s.poison, it.Seq) {
			f.Items = append(f.Items, i)
		}
	}
	if len(f.Items) > 0 {
		if !s.names {
			f.Items = nil
		} else {
			f.Taken = len(f.Items) < len(b.Items)
		}
		return f
	}
	for _, it := range b.Items {
		it.Record = slices.Clone(it.Record)
		s.taken = append(s.taken, it)
	}
	s.gaps = append(s.gaps, b.Gaps...)
	return nil
}

func (s *pickySink) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *pickySink) seqs() []uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []uint64
	for _, it := range s.taken {
		list = append(list, it.Seq)
	}
	return list
}

// records are those from first to last.
func records(first, last uint64) []queue.Record {
	var list []queue.Record
	for seq := first; seq <= last; seq++ {
		list = append(list, queue.Record{Seq: seq, Source: "webhook", Data: fmt.Appendf(nil, `{"n":%d}`, seq)})
	}
	return list
}

// upTo are the seqs from first to last without some.
func upTo(first, last uint64, without ...uint64) []uint64 {
	var list []uint64
	for seq := first; seq <= last; seq++ {
		if !slices.Contains(without, seq) {
			list = append(list, seq)
		}
	}
	return list
}

// list returns all letters without their records, in the order of seq.
func (l *letters) list() (list []deadletter.Letter, err error) {
	err = l.with(func(s *deadletter.Store) error {
		list, err = s.Page(0, 1<<20)
		return err
	})
	return list, err
}

// start runs d until the test ends.
func start(t *testing.T, d *delivery) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); d.run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
}

// Rejected records are found among hundreds, whether the destination names them or
// not; the others arrive in their order, once.
func TestRejectedRecordsAreSetAsideAlone(t *testing.T) {
	for name, tt := range map[string]struct {
		names  bool
		poison []uint64
		sends  int // at most
	}{
		"one of 500":       {poison: []uint64{123}, sends: 20}, // 1 + 2 for each halving, and record 501
		"one, named":       {names: true, poison: []uint64{123}, sends: 3},
		"first and last":   {poison: []uint64{1, 500}, sends: 40},
		"many, named":      {names: true, poison: upTo(10, 99), sends: 3},
		"all of them":      {poison: upTo(1, 500), sends: 999 + 4}, // three others, and the first once more
		"all, named":       {names: true, poison: upTo(1, 500), sends: 3},
		"neighbours":       {poison: []uint64{250, 251}, sends: 40},
		"nothing rejected": {sends: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &pickySink{names: tt.names, poison: tt.poison}
				c := &fakeCursor{batches: [][]queue.Record{records(1, 500), records(501, 501)}}
				d := newTestDelivery(t, SinkConfig{Config: s}, c, slog.New(slog.DiscardHandler))
				d.stored = func() uint64 { return 501 }
				start(t, d)
				synctest.Wait()
				if want := upTo(1, 501, tt.poison...); !slices.Equal(slices.Sorted(slices.Values(s.seqs())), want) {
					t.Errorf("delivered %d records, want %d without the poisonous ones, once", len(s.seqs()), len(want))
				}
				list, err := d.letters.list()
				if err != nil {
					t.Fatal(err)
				}
				var set []uint64
				for _, l := range list {
					set = append(set, l.Seq)
					if l.Status != "400" || l.Answer != "mapper_parsing_exception" || l.Attempts < 1 || l.Source != "webhook" {
						t.Fatalf("letter %+v does not say what the destination said", l)
					}
				}
				if !slices.Equal(set, tt.poison) {
					t.Errorf("dead letters: got %v, want %v", set, tt.poison)
				}
				if want := (queue.Outcome{DeadLettered: uint64(len(tt.poison))}); c.outcome != want || !slices.Equal(c.acked(), []uint64{500, 501}) {
					t.Errorf("settled %v with %+v, want [500 501] with %+v", c.acked(), c.outcome, want)
				}
				if s.sends > tt.sends {
					t.Errorf("it took %d sends, want at most %d", s.sends, tt.sends)
				}
				if got := d.snapshot(); got.State != Active {
					t.Errorf("a sink whose rejected records were set aside is %s: %s", got.State, got.LastError)
				}
			})
		})
	}
}

func TestOnRejectDrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &pickySink{poison: []uint64{2, 3}}
		c := &fakeCursor{batches: [][]queue.Record{records(1, 4)}}
		d := newTestDelivery(t, SinkConfig{Config: s, OnReject: DropRejected}, c, slog.New(slog.DiscardHandler))
		start(t, d)
		synctest.Wait()
		if want := (queue.Outcome{Dropped: 2}); c.outcome != want || !slices.Equal(s.seqs(), []uint64{1, 4}) {
			t.Errorf("delivered %v, settled with %+v; want [1 4] and %+v", s.seqs(), c.outcome, want)
		}
		if rejected := d.metrics.droppedRejected.Load(); rejected != 2 {
			t.Errorf("counted %d as rejected, want 2", rejected)
		}
	})
}

// Block keeps the order: what is behind the rejected record waits for it.
func TestOnRejectBlock(t *testing.T) {
	for _, names := range []bool{false, true} {
		t.Run(fmt.Sprintf("named %t", names), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &pickySink{names: names, poison: []uint64{3}}
				c := &fakeCursor{batches: [][]queue.Record{records(1, 6)}}
				d := newTestDelivery(t, SinkConfig{Config: s, OnReject: BlockAt}, c, slog.New(slog.DiscardHandler))
				start(t, d)
				time.Sleep(time.Hour) // of the bubble's time
				synctest.Wait()
				if got := d.snapshot(); got.State != Error || got.Reason != "Rejected" || !slices.Equal(s.seqs(), []uint64{1, 2}) || len(c.acked()) > 0 {
					t.Errorf("while it blocks: delivered %v, acked %v, status %+v", s.seqs(), c.acked(), got)
				}
				s.set(func() { s.poison = nil })
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if got := d.snapshot(); got.State != Active || !slices.Equal(s.seqs(), upTo(1, 6)) || c.outcome != (queue.Outcome{}) {
					t.Errorf("after it was taken: delivered %v, outcome %+v, status %+v", s.seqs(), c.outcome, got)
				}
			})
		})
	}
}

// Full dead letters lose nothing: the sink stops, and goes on when there is room.
func TestFullDeadLettersStopTheSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &pickySink{poison: upTo(2, 40)}
		c := &fakeCursor{batches: [][]queue.Record{records(1, 50)}}
		d := newTestDelivery(t, SinkConfig{Config: s}, c, slog.New(slog.DiscardHandler))
		d.letters.options.MaxBytes = 4000
		start(t, d)
		time.Sleep(time.Hour) // of the bubble's time
		synctest.Wait()
		if got := d.snapshot(); got.State != Error || got.Reason != "DeadLettersFull" || got.NextAttempt == nil || len(c.acked()) > 0 {
			t.Fatalf("at the bound: acked %v, status %+v", c.acked(), got)
		}
		before, err := d.letters.list()
		if err != nil || len(before) == 0 {
			t.Fatalf("%d letters: %v", len(before), err)
		}
		total := len(before)
		for total < 39 {
			n, err := d.letters.purge(nil)
			if err != nil || n == 0 {
				t.Fatalf("purge = %d, %v", n, err)
			}
			synctest.Wait()
			now, err := d.letters.list()
			if err != nil {
				t.Fatal(err)
			}
			total += len(now)
			if len(now) == 0 {
				break
			}
		}
		if total != 39 || !slices.Equal(c.acked(), []uint64{50}) {
			t.Errorf("%d letters in all, acked %v; want 39 and [50]", total, c.acked())
		}
		if want := append([]uint64{1}, upTo(41, 50)...); !slices.Equal(s.seqs(), want) {
			t.Errorf("delivered %v, want %v", s.seqs(), want)
		}
	})
}

// A record that is met again, after a crash or by a replay, has its fate decided
// anew: no letter stays behind for one that was delivered.
func TestPendingRecordHasNoLetter(t *testing.T) {
	s := &pickySink{poison: []uint64{2, 3}}
	c := &pushed{fakeCursor: fakeCursor{account: queue.Account{ReplayTo: 4}}, ch: make(chan []queue.Record)}
	d := newTestDelivery(t, SinkConfig{Config: s}, &c.fakeCursor, slog.New(slog.DiscardHandler))
	d.cursor = c
	start(t, d)
	c.ch <- records(1, 4)
	await.Until(t, "settled", func() bool { return len(c.acked()) == 1 })
	s.set(func() { s.poison, s.taken = []uint64{3}, nil })
	c.ch <- records(2, 4)
	await.Until(t, "settled again", func() bool { return len(c.acked()) == 2 })
	list, err := d.letters.list()
	if err != nil || len(list) != 1 || list[0].Seq != 3 {
		t.Errorf("dead letters: %+v, %v; want record 3 alone", list, err)
	}
	if len(s.taken) != 2 || s.taken[0].Late != sinks.Replayed || s.taken[1].Late != sinks.OnTime {
		t.Errorf("delivered %+v, want record 2 as replayed and 4 on time", s.taken)
	}
}

// Of records that are pending again the letters go, from the first to the last of them, and no others.
func TestLettersOfPendingRecordsAreForgotten(t *testing.T) {
	for _, tt := range []struct {
		first, last uint64
		left        []uint64
	}{
		{4, 6, []uint64{3, 7}},
		{5, 6, []uint64{3, 4, 7}}, // its last record alone has a letter
		{4, 5, []uint64{3, 6, 7}}, // its first one alone
		{5, 5, []uint64{3, 4, 6, 7}},
	} {
		l := newLetters(queueFacts{directory: t.TempDir()}, SinkConfig{Name: "test", DeadLetters: defaultDeadLetters()}, slog.New(slog.DiscardHandler))
		t.Cleanup(l.close)
		var list []deadletter.Letter
		for _, seq := range []uint64{3, 4, 6, 7} {
			list = append(list, deadletter.Letter{Seq: seq, Record: []byte("{}")})
		}
		if err := errors.Join(l.add(list), l.forgetPending(tt.first, tt.last)); err != nil {
			t.Fatal(err)
		}
		var left []uint64
		for seq := range uint64(10) {
			if l.has(seq) {
				left = append(left, seq)
			}
		}
		if !slices.Equal(left, tt.left) {
			t.Errorf("records %d to %d are pending: got letters of %v, want %v", tt.first, tt.last, left, tt.left)
		}
	}
}
