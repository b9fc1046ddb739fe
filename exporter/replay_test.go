package exporter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/exporter/queue/inspect"
	"github.com/docket-export/docket/sinks"
)

// replay sets siem back.
func (r *reloads) replay(from uint64) inspect.Replay {
	r.t.Helper()
	planned, err := r.e.Replay(r.t.Context(), "siem", inspect.ReplayFrom{Seq: from}, false)
	if err != nil {
		r.t.Fatalf("replay from %d: %v", from, err)
	}
	return planned
}

// account is that of siem.
func (r *reloads) account() queue.Account { return r.e.queue.Stats().Cursors["siem"] }

// A sink is set back while it is served: it gets the records again, in order, and the books
// balance. Other sinks do not notice.
func TestReplayOfASinkAtWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReloads(t, "a", "siem bus")
		r.send("a", 1, 9)
		r.delivered("siem", 1, 9)
		r.delivered("bus", 1, 9)
		dry, err := r.e.Replay(t.Context(), "siem", inspect.ReplayFrom{Seq: 4}, true)
		if err != nil || dry.Records.From != 4 || dry.Records.To != 10 || r.account().Next != 10 || len(r.to["siem"].labels()) != 1 {
			t.Errorf("dry run: got %+v, %v", dry, err)
		}
		if got := r.replay(4); got.Count() != 6 || got.Oldest.IsZero() {
			t.Errorf("got %+v, want six records", got)
		}
		want := slices.Concat(numberedRecords(1, 9), numberedRecords(4, 9))
		r.eventually("replayed", func() bool { return len(r.to["siem"].records()) >= len(want) })
		r.send("a", 10, 12)
		want = append(want, numberedRecords(10, 12)...)
		r.eventually("all", func() bool { return r.account().Next == 13 })
		if got := r.to["siem"].records(); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if a := r.account(); a.Delivered != 12 || a.Pending(12) != 0 {
			t.Errorf("got %+v, want all delivered", a)
		}
		r.delivered("bus", 1, 12)
		if siem, bus := r.to["siem"].labels(), r.to["bus"].labels(); len(siem) != 2 || len(bus) != 1 {
			t.Errorf("opened: siem %d times, bus %d; want 2 and 1", len(siem), len(bus))
		}
	})
}

// A batch under way is decided before the sink is set back; one that does not end comes again.
func TestReplayBesideABatch(t *testing.T) {
	for name, hangs := range map[string]bool{"decided": false, "hangs": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newReloads(t, "a", "siem")
				r.send("a", 1, 4)
				r.delivered("siem", 1, 4)
				release := make(chan struct{})
				r.to["siem"].answer(func(ctx context.Context, _ sinks.Batch) error {
					select {
					case <-release:
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				})
				r.send("a", 5, 5)
				time.AfterFunc(time.Second, func() {
					if !hangs {
						close(release)
					}
				})
				got := r.replay(2)
				want, place := slices.Concat(numberedRecords(1, 5), numberedRecords(2, 5)), uint64(6)
				if hangs {
					want, place = slices.Concat(numberedRecords(1, 4), numberedRecords(2, 5)), 5
					close(release)
				}
				if got.Records.To != place {
					t.Errorf("got %+v, want the place at %d", got, place)
				}
				r.eventually("all", func() bool { return r.account().Next == 6 })
				if got := r.to["siem"].records(); !slices.Equal(got, want) {
					t.Errorf("got %q, want %q", got, want)
				}
				if a := r.account(); a.Delivered != 5 {
					t.Errorf("got %+v, want five delivered", a)
				}
			})
		})
	}
}

// Replays at any moment, beside deliveries that fail by turns: what a sink gets begins anew at
// the record that was asked for, leaves none out, and is counted once.
func TestReplaysAtAnyMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seed := rand.Uint64()
		if testing.Short() {
			seed = 1 // the gate decides nothing by chance
		}
		t.Logf("seed %d", seed)
		dice := rand.New(rand.NewPCG(seed, 0))
		r := newReloads(t, "a", "siem")
		fails := 0
		r.to["siem"].answer(func(context.Context, sinks.Batch) error {
			if fails++; fails%7 == 0 {
				return errors.New("away")
			}
			time.Sleep(time.Duration(fails%5) * 10 * time.Millisecond)
			return nil
		})
		begun := map[int]int{} // how often a replay began at a record
		stored := 0
		for range 40 {
			n := 1 + dice.IntN(9)
			r.send("a", stored+1, stored+n)
			stored += n
			time.Sleep(time.Duration(dice.IntN(300)) * time.Millisecond)
			if next := int(r.account().Next); next > 1 {
				from := 1 + dice.IntN(next-1)
				r.replay(uint64(from))
				begun[from]++
			}
			if a := r.account(); a.Next-1 != a.Delivered+a.Filtered+a.DeadLettered+a.Dropped+a.Corrupt {
				t.Fatalf("the account does not add up: %+v", a)
			}
		}
		r.eventually("all", func() bool { return r.account().Next == uint64(stored+1) })
		if a := r.account(); a.Delivered != uint64(stored) {
			t.Errorf("got %+v, want %d delivered", a, stored)
		}
		last := 0
		for _, record := range r.to["siem"].records() {
			var n int
			if _, err := fmt.Sscanf(record, `{"n":%d}`, &n); err != nil {
				t.Fatal(err)
			}
			if n != last+1 {
				if begun[n]--; begun[n] < 0 {
					t.Fatalf("record %d behind %d, where no replay began", n, last)
				}
			}
			last = n
		}
		if last != stored {
			t.Errorf("got to record %d, want %d", last, stored)
		}
	})
}

// onceConfig is a sink that does not write a record again once it has been closed.
type onceConfig struct {
	*destinationConfig
	refuses func(labels int) bool
}

func (c onceConfig) Replayable() error {
	if c.refuses(len(c.to.labels())) {
		return errors.New("has every record once")
	}
	return nil
}

// What cannot be is refused, and the sink goes on where it was.
func TestReplayIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReloads(t, "a", "siem bus gone")
		r.send("a", 1, 3)
		for _, sink := range []string{"siem", "bus", "gone"} {
			r.delivered(sink, 1, 3)
		}
		looks := 0
		r.reload(func(c *Config) {
			always, later := r.sink("siem", "2"), r.sink("bus", "2")
			always.Config = onceConfig{always.Config.(*destinationConfig), func(int) bool { return true }}
			later.Config = onceConfig{later.Config.(*destinationConfig), func(int) bool { looks++; return looks > 2 }}
			c.Sinks[0], c.Sinks[1] = always, later
		})
		r.to["gone"].answer(func(context.Context, sinks.Batch) error { return errors.New("away") })
		r.send("a", 4, 4)
		r.reload(func(c *Config) { c.Sinks = c.Sinks[:2] })
		for sink, want := range map[string]string{
			"none": `no sink "none"`, "siem": "sink siem has every record once", "bus": "sink bus has every record once",
			"gone": "sink gone was removed from the configuration",
		} {
			if _, err := r.e.Replay(t.Context(), sink, inspect.ReplayFrom{Seq: 1}, false); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want that %s", sink, err, want)
			}
		}
		r.send("a", 5, 6)
		r.delivered("siem", 1, 6)
		r.delivered("bus", 1, 6)
		if looks < 3 || len(r.to["bus"].labels()) < 3 {
			t.Errorf("got %d looks and %q, want bus asked once more when it had ended", looks, r.to["bus"].labels())
		}
	})
}

// An operator's retry ends the pause before an attempt to open the sink, and to send.
func TestRetryEndsThePause(t *testing.T) {
	for name, test := range map[string]struct {
		sink    *scriptedSink
		batches [][]queue.Record
	}{
		"open": {&scriptedSink{openErrors: repeat(errNet, 2)}, nil},
		"send": {&scriptedSink{errors: repeat(errNet, 2)}, [][]queue.Record{oneRecord(1)}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := deliveryTo(t, test.sink, &fakeCursor{batches: test.batches}, slog.New(slog.DiscardHandler))
				start(t, d)
				began := time.Now()
				for attempt := 1; attempt <= 2; attempt++ {
					synctest.Wait()
					if got := d.snapshot(); got.Attempts != attempt || got.NextAttempt == nil {
						t.Fatalf("got %+v, want %d failed attempts and a pause", got, attempt)
					}
					d.retryNow.Broadcast()
				}
				synctest.Wait()
				if got := d.snapshot(); got.State != Active || len(test.sink.sent) != len(test.batches) || !time.Now().Equal(began) {
					t.Errorf("got %+v after %v, want it delivered at once", got, time.Since(began))
				}
			})
		})
	}
}

func TestRetryOverTheSocket(t *testing.T) {
	e := letterExporter(t)
	c := over(t, e)
	d, picky := e.parts().delivery("siem"), &pickySink{}
	d.cfg.Config = picky
	d.cfg.Retry.InitialBackoff, d.cfg.Retry.MaxBackoff = config.Duration(time.Hour), config.Duration(time.Hour)
	picky.fail = errors.New("away")
	storeRecords(t, e, 1, 1)
	start(t, d)
	await.Until(t, "it waits", func() bool { return d.snapshot().NextAttempt != nil })
	ask := func(path, body string) (int, string) {
		return request(t, c, http.MethodPost, "http://docket/sinks/"+path, "", body)
	}
	if status, answer := ask("siem/retry", "{}"); status != 200 || !strings.HasPrefix(answer, `{"waited":true,`) || !strings.Contains(answer, `"attempts":2`) {
		t.Errorf("failing still: got %d %s", status, answer)
	}
	await.Until(t, "it waits again", func() bool { return d.snapshot().NextAttempt != nil })
	picky.set(func() { picky.fail = nil })
	if status, answer := ask("siem/retry", "{}"); status != 200 || !strings.Contains(answer, `"state":"Active"`) {
		t.Errorf("mended: got %d %s", status, answer)
	}
	if status, answer := ask("siem/retry", "{}"); status != 200 || !strings.HasPrefix(answer, `{"waited":false,`) {
		t.Errorf("nothing to do: got %d %s", status, answer)
	}
	for path, body := range map[string]string{"none/retry": "{}", "none/replay": `{"seq":1}`} {
		if status, answer := ask(path, body); status != 404 {
			t.Errorf("%s: got %d %s, want 404", path, status, answer)
		}
	}
	for body, want := range map[string]string{
		"{}": "the replay needs a seq or a time", `{"seq":1,"x":2}`: "the body must be", "": "the body must be", `{"seq":9}`: "a replay only goes back",
	} {
		if status, answer := ask("siem/replay", body); status < 400 || status >= 500 || !strings.Contains(answer, want) {
			t.Errorf("%s: got %d %s, want %s", body, status, answer, want)
		}
	}
}
