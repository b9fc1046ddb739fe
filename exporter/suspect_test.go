package exporter

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/sinks"
)

// suspectSink refuses everything while it is broken, and the poisonous records always. Where it
// names, it answers for each record, as the bulk API does.
type suspectSink struct {
	pickySink
	broken bool // guarded by mu
	sends  int
}

func (s *suspectSink) Open(context.Context, sinks.Env) (sinks.Sink, error) { return s, nil }

func (s *suspectSink) Send(ctx context.Context, b sinks.Batch) error {
	s.mu.Lock()
	broken := s.broken
	s.sends++
	s.mu.Unlock()
	if !broken {
		return s.pickySink.Send(ctx, b)
	}
	f := &sinks.Failure{Kind: sinks.Rejected, Said: sinks.Answer{Status: "400"}, Err: errors.New("answered 400")}
	if s.names {
		for i := range b.Items {
			f.Items = append(f.Items, i)
		}
	}
	return f
}

func suspects(t *testing.T, s *suspectSink, cfg SinkConfig, batches ...[]queue.Record) (*delivery, *fakeCursor) {
	t.Helper()
	c := &fakeCursor{batches: batches}
	if cfg.Config == nil {
		cfg.Config = s
	}
	d := newTestDelivery(t, cfg, c, slog.New(slog.DiscardHandler))
	last := batches[len(batches)-1]
	d.stored = func() uint64 { return last[len(last)-1].Seq }
	return d, c
}

func letterSeqs(t *testing.T, d *delivery) []uint64 {
	t.Helper()
	list, err := d.letters.list()
	if err != nil {
		t.Fatal(err)
	}
	var seqs []uint64
	for _, l := range list {
		seqs = append(seqs, l.Seq)
	}
	return seqs
}

func sorted(seqs []uint64) []uint64 { return slices.Sorted(slices.Values(seqs)) }

// A destination that refuses every record is misconfigured, whatever the code says: nothing is
// set aside or dropped, and all is delivered once the destination accepts records again.
func TestRefusalOfEverythingHoldsTheSink(t *testing.T) {
	for policy, reason := range map[OnReject]string{DeadLetter: "Misconfigured", DropRejected: "Misconfigured", BlockAt: "Rejected"} {
		for _, names := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				s := &suspectSink{pickySink: pickySink{names: names}, broken: true}
				d, c := suspects(t, s, SinkConfig{OnReject: policy}, records(1, 200), records(201, 400), records(401, 401))
				start(t, d)
				time.Sleep(time.Hour) // of the bubble's time
				synctest.Wait()
				got := d.snapshot()
				if got.State != Error || got.Reason != reason || !strings.Contains(got.LastError, "answered 400") || got.NextAttempt == nil {
					t.Errorf("while everything is refused: %+v", got)
				}
				if set := letterSeqs(t, d); len(set) > 0 || len(c.acked()) > 0 || c.outcome != (queue.Outcome{}) {
					t.Errorf("set aside %v, settled %v with %+v; want nothing", set, c.acked(), c.outcome)
				}
				if most := 70 * 7; s.sends > most { // a destination that refuses is not to be flooded
					t.Errorf("%d sends within an hour, want at most %d", s.sends, most)
				}
				s.set(func() { s.broken = false })
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if !slices.Equal(sorted(s.seqs()), upTo(1, 401)) || len(letterSeqs(t, d)) > 0 || c.outcome != (queue.Outcome{}) {
					t.Errorf("after it was mended: %d delivered, outcome %+v; want each of 401 once", len(s.seqs()), c.outcome)
				}
				if got := d.snapshot(); got.State != Active {
					t.Errorf("after it was mended: %+v", got)
				}
			})
		}
	}
}

// What the destination has accepted before proves nothing, however much that is and however late it
// begins to refuse.
func TestRefusalOfEverythingAfterADay(t *testing.T) {
	for _, policy := range []OnReject{DeadLetter, DropRejected} {
		for _, names := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				s := &suspectSink{pickySink: pickySink{names: names}}
				d, c := pushes(t, s, SinkConfig{OnReject: policy})
				start(t, d)
				for hour := range uint64(24) {
					c.push(records(hour*50+1, hour*50+50))
					time.Sleep(time.Hour) // of the bubble's time
				}
				s.set(func() { s.broken = true })
				c.push(records(1201, 1250))
				time.Sleep(time.Hour)
				c.push(records(1251, 1300))
				time.Sleep(time.Hour)
				synctest.Wait()
				if got := d.snapshot(); got.State != Error || got.Reason != "Misconfigured" || len(letterSeqs(t, d)) > 0 || c.outcome != (queue.Outcome{}) {
					t.Errorf("while everything is refused: %+v, set aside %v, outcome %+v", got, letterSeqs(t, d), c.outcome)
				}
				s.set(func() { s.broken = false })
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if !slices.Equal(sorted(s.seqs()), upTo(1, 1300)) || len(letterSeqs(t, d)) > 0 || c.outcome != (queue.Outcome{}) {
					t.Errorf("after it was mended: %d delivered, outcome %+v; want each of 1300 once", len(s.seqs()), c.outcome)
				}
			})
		}
	}
}

// Records that are refused where others are accepted are set aside, wherever they are. Each other
// one is delivered once. A batch that is refused as a whole may cost one that is delivered again.
func TestPoisonAmongOthersIsSetAside(t *testing.T) {
	for name, poison := range map[string][]uint64{
		"the first":                    {1},
		"the first ones":               {1, 2, 3, 4, 5},
		"one of thousands":             {1777},
		"a whole batch":                upTo(1, 500),
		"batches in a row":             upTo(501, 2500),
		"all but the first":            upTo(2, 3000),
		"all but one in the middle":    upTo(1, 3000, 1234),
		"all but the last":             upTo(1, 2999),
		"every second":                 slices.DeleteFunc(upTo(1, 3000), func(seq uint64) bool { return seq%2 == 0 }),
		"the first batch and the last": slices.Concat(upTo(1, 500), upTo(2501, 2999)),
	} {
		for _, names := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel() // each dead letter waits for the disk
				synctest.Test(t, func(t *testing.T) {
					s := &suspectSink{pickySink: pickySink{names: names, poison: poison}}
					var batches [][]queue.Record
					for first := uint64(1); first < 3000; first += 500 {
						batches = append(batches, records(first, first+499))
					}
					batches = append(batches, records(3001, 3001)) // taken: it ends a hold at the end
					d, c := suspects(t, s, SinkConfig{}, batches...)
					start(t, d)
					time.Sleep(24 * time.Hour) // of the bubble's time
					synctest.Wait()
					if set := sorted(letterSeqs(t, d)); !slices.Equal(set, poison) {
						t.Errorf("%d are set aside, want the %d that are refused", len(set), len(poison))
					}
					again, whole := len(s.seqs()), 0
					for first := uint64(1); first < 3000; first += 500 {
						if !slices.ContainsFunc(upTo(first, first+499), func(seq uint64) bool { return !slices.Contains(poison, seq) }) {
							whole++
						}
					}
					want := upTo(1, 3001, poison...)
					if got := slices.Compact(sorted(s.seqs())); !slices.Equal(got, want) {
						t.Errorf("%d delivered, want each of %d", len(got), len(want))
					}
					if again -= len(want); again > whole {
						t.Errorf("%d are delivered again, want at most %d", again, whole)
					}
					if want := (queue.Outcome{DeadLettered: uint64(len(poison))}); c.outcome != want || d.snapshot().State != Active {
						t.Errorf("outcome %+v, want %+v; status %+v", c.outcome, want, d.snapshot())
					}
				})
			})
		}
	}
}

// pushedLater is a queue that gets records while the sink is served.
type pushedLater struct {
	pushed
	last atomic.Uint64
}

func (c *pushedLater) push(list []queue.Record) {
	c.last.Store(list[len(list)-1].Seq)
	c.ch <- list
}

func pushes(t *testing.T, s *suspectSink, cfg SinkConfig) (*delivery, *pushedLater) {
	c := &pushedLater{pushed: pushed{ch: make(chan []queue.Record, 8)}}
	cfg.Config = s
	d := newTestDelivery(t, cfg, &c.fakeCursor, slog.New(slog.DiscardHandler))
	d.cursor, d.stored = c, c.last.Load
	d.readAhead = func(_ context.Context, from uint64, visit func(queue.Record) bool) error {
		for _, r := range records(1, c.last.Load()) {
			if r.Seq >= from && !visit(r) {
				break
			}
		}
		return nil
	}
	return d, c
}

// Nothing tells whether the only records are at fault, or the destination. The next one does.
func TestOnlyRecordWaitsForTheNext(t *testing.T) {
	for _, n := range []uint64{1, 40, 500} {
		synctest.Test(t, func(t *testing.T) {
			s := &suspectSink{pickySink: pickySink{poison: upTo(1, n)}}
			d, c := pushes(t, s, SinkConfig{})
			c.push(records(1, n))
			start(t, d)
			time.Sleep(time.Hour) // of the bubble's time
			synctest.Wait()
			if got := d.snapshot(); got.State != Error || got.Reason != "Misconfigured" || len(letterSeqs(t, d)) > 0 {
				t.Errorf("alone: %+v, set aside %v", got, letterSeqs(t, d))
			}
			c.push(records(n+1, n+1))
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			if got := d.snapshot(); got.State != Active || !slices.Equal(letterSeqs(t, d), upTo(1, n)) || !slices.Equal(s.seqs(), []uint64{n + 1}) {
				t.Errorf("with a good one behind: %+v, set aside %v, delivered %v", got, letterSeqs(t, d), s.seqs())
			}
		})
	}
}

// What goes ahead of its turn is marked so, is what the sink's filter takes, and is stamped.
func TestTriedRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &suspectSink{pickySink: pickySink{poison: []uint64{1}}}
		d, c := suspects(t, s, SinkConfig{When: "record.n == 1 || record.n == 700", Stamp: true}, records(1, 500), records(501, 1000))
		start(t, d)
		time.Sleep(time.Minute) // of the bubble's time
		synctest.Wait()
		if len(s.taken) != 1 || s.taken[0].Seq != 700 || s.taken[0].Late != sinks.Ahead || !strings.HasPrefix(string(s.taken[0].Record), `{"n":700,"_docket":`) {
			t.Errorf("delivered %+v, want record 700 ahead of its turn", s.taken)
		}
		if want := (queue.Outcome{Filtered: 998, DeadLettered: 1}); c.outcome != want {
			t.Errorf("outcome %+v, want %+v", c.outcome, want)
		}
	})
}

// undoingSink is Resuming: a record that it has accepted is behind it for good, and what it
// is only to try leaves nothing.
type undoingSink struct {
	suspectSink
	next  uint64
	tried []uint64
}

func (s *undoingSink) Transacts() bool                                     { return true }
func (s *undoingSink) Open(context.Context, sinks.Env) (sinks.Sink, error) { return s, nil }
func (s *undoingSink) Resume(_ context.Context, _ sinks.Queue, d sinks.Decide) error {
	_, err := d(sinks.Position{}, false)
	return err
}

func (s *undoingSink) Send(ctx context.Context, b sinks.Batch) error {
	b.Items = slices.DeleteFunc(slices.Clone(b.Items), func(it sinks.Item) bool { return it.Seq < s.next })
	err := s.suspectSink.Send(ctx, b)
	if n := len(b.Items); err == nil && n > 0 {
		s.next = b.Items[n-1].Seq + 1
	}
	return err
}

func (s *undoingSink) Try(ctx context.Context, b sinks.Batch) error {
	s.tried = append(s.tried, b.Items[0].Seq)
	taken, next := s.taken, s.next
	err := s.Send(ctx, b)
	s.taken, s.next = taken, next
	return err
}

// A sink in transactions gets each record in order and once, also behind what it refuses.
func TestSinkInTransactionsTriesAndUndoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &undoingSink{suspectSink: suspectSink{pickySink: pickySink{poison: append(upTo(1, 3), 700)}, broken: true}}
		d, c := suspects(t, &s.suspectSink, SinkConfig{Config: s}, records(1, 500), records(501, 1000))
		start(t, d)
		time.Sleep(time.Hour) // of the bubble's time
		synctest.Wait()
		if got := d.snapshot(); got.Reason != "Misconfigured" || len(letterSeqs(t, d)) > 0 || len(s.tried) == 0 {
			t.Errorf("while everything is refused: %+v, tried %v", got, s.tried)
		}
		s.set(func() { s.broken = false })
		time.Sleep(time.Hour)
		synctest.Wait()
		if want := append(upTo(1, 3), 700); !slices.Equal(letterSeqs(t, d), want) || c.outcome.DeadLettered != 4 {
			t.Errorf("set aside %v, want %v", letterSeqs(t, d), want)
		}
		if !slices.Equal(s.seqs(), upTo(4, 1000, 700)) {
			t.Errorf("%d delivered, want all others in order", len(s.seqs()))
		}
	})
}

// A destination that never takes as much at once as a batch has gets it in parts.
func TestThrottledBatchIsHalved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const burst = 100
		var taken []uint64
		f := &funcSink{send: func(_ context.Context, b sinks.Batch) error {
			if len(b.Items) > burst {
				return &sinks.Failure{Kind: sinks.Throttled, After: 10 * time.Second, Err: errors.New("429")}
			}
			for _, it := range b.Items {
				taken = append(taken, it.Seq)
			}
			return nil
		}}
		c := &fakeCursor{batches: [][]queue.Record{records(1, 500)}}
		d := newTestDelivery(t, SinkConfig{Config: f}, c, slog.New(slog.DiscardHandler))
		d.cfg.Retry.MaxBackoff = config.Duration(time.Minute)
		start(t, d)
		time.Sleep(time.Hour) // of the bubble's time
		synctest.Wait()
		if !slices.Equal(taken, upTo(1, 500)) || d.snapshot().State != Active {
			t.Errorf("%d of 500 delivered, %+v", len(taken), d.snapshot())
		}
	})
}
