package exporter

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/sinks"
)

// fakeCursor fails, then hands out records one batch at a time, then waits.
type fakeCursor struct {
	failures []error
	batches  [][]queue.Record
	account  queue.Account // before the first record
	mu       sync.Mutex
	done     []uint64
	outcome  queue.Outcome // of everything that was settled
	redriven uint64        // delivered again
}

func (c *fakeCursor) Next(ctx context.Context, _ queue.Limits) ([]queue.Record, error) {
	if len(c.failures) > 0 {
		err := c.failures[0]
		c.failures = c.failures[1:]
		return nil, err
	}
	if len(c.batches) == 0 {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	b := c.batches[0]
	c.batches = c.batches[1:]
	return b, nil
}

func (c *fakeCursor) Settle(seq uint64, o queue.Outcome) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done = append(c.done, seq)
	c.outcome.Filtered += o.Filtered
	c.outcome.DeadLettered += o.DeadLettered
	c.outcome.Dropped += o.Dropped
	return nil
}

func (c *fakeCursor) Redelivered(_ context.Context, n uint64, remove func() error) error {
	if err := remove(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.redriven += n
	return nil
}

func (c *fakeCursor) acked() []uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.done)
}

func (c *fakeCursor) OldestPending() (time.Time, bool) { return time.Time{}, false }

func (c *fakeCursor) Account() queue.Account {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.account
	a.Next = max(a.Next, 1)
	if n := len(c.done); n > 0 {
		a.Next = c.done[n-1] + 1
	}
	return a
}

func (c *fakeCursor) Save(context.Context) error { return nil }

func (c *fakeCursor) SetReplayed(replayed int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.account.Replayed = replayed
}

func (c *fakeCursor) Close() {}

// scriptedSink answers each Send with the next of its errors, then with nil. It
// is its own configuration.
type scriptedSink struct {
	sinks.Config
	openErrors []error
	errors     []error
	attempts   []time.Duration // since the start
	began      time.Time
	sent       [][]uint64
}

func (s *scriptedSink) Open(context.Context, sinks.Env) (sinks.Sink, error) {
	if len(s.openErrors) > 0 {
		err := s.openErrors[0]
		s.openErrors = s.openErrors[1:]
		return nil, err
	}
	return s, nil
}

func (s *scriptedSink) Send(_ context.Context, b sinks.Batch) error {
	s.attempts = append(s.attempts, time.Since(s.began))
	if len(s.errors) > 0 {
		err := s.errors[0]
		s.errors = s.errors[1:]
		if err != nil {
			return err
		}
	}
	var seqs []uint64
	for _, it := range b.Items {
		seqs = append(seqs, it.Seq)
	}
	s.sent = append(s.sent, seqs)
	return nil
}

func (s *scriptedSink) Close(context.Context) error { return nil }

func deliveryTo(t *testing.T, s *scriptedSink, c *fakeCursor, log *slog.Logger) *delivery {
	t.Helper()
	s.began = time.Now()
	return newTestDelivery(t, SinkConfig{Config: s}, c, log)
}

// newTestDelivery fills in what cfg leaves out.
func newTestDelivery(t *testing.T, cfg SinkConfig, c *fakeCursor, log *slog.Logger) *delivery {
	t.Helper()
	cfg.Name, cfg.Batch, cfg.DeadLetters = "test", sinks.DefaultBatch(), defaultDeadLetters()
	cfg.Retry = RetryConfig{InitialBackoff: config.Duration(time.Second), MaxBackoff: config.Duration(time.Minute)}
	if cfg.OnReject == "" {
		cfg.OnReject = DeadLetter
	}
	later := slices.Concat(c.batches...)
	facts := queueFacts{
		id: "q", directory: t.TempDir(),
		readAhead: func(_ context.Context, from uint64, visit func(queue.Record) bool) error {
			for _, r := range later {
				if r.Seq >= from && !visit(r) {
					break
				}
			}
			return nil
		},
		lost: func() []segment.SeqRange { return nil }, stored: func() uint64 { return 0 },
	}
	d, err := newDelivery(cfg, facts, c, newMetrics("test").delivery("test"), log)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func oneRecord(seq uint64) []queue.Record { return []queue.Record{{Seq: seq, Data: []byte("{}")}} }

var errNet = errors.New("connection refused")

func repeat(err error, n int) []error { return slices.Repeat([]error{err}, n) }

// troubledSink keeps its Env.
type troubledSink struct {
	scriptedSink
	env sinks.Env
}

func (s *troubledSink) Open(_ context.Context, env sinks.Env) (sinks.Sink, error) {
	s.env = env
	return s, nil
}

// What a sink cannot do beside Send shows, while records go on. An operator has the sink try it.
func TestTroubleBesideSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &troubledSink{scriptedSink: scriptedSink{began: time.Now()}}
		var said bytes.Buffer
		c := &fakeCursor{batches: [][]queue.Record{oneRecord(1)}}
		d := newTestDelivery(t, SinkConfig{Config: s}, c, slog.New(slog.NewTextHandler(&said, nil)))
		if _, err := d.opened(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.env.Trouble(sinks.Failf(sinks.Misconfigured, "no key"), time.Minute)
		s.errors = []error{errNet}
		start(t, d)
		synctest.Wait()
		if got := d.snapshot(); got.State != Degraded || got.Reason != "Misconfigured" || got.LastError != "no key" || got.NextAttempt == nil {
			t.Errorf("got %+v, want it Degraded", got)
		}
		time.Sleep(2 * time.Second) // of the bubble's time
		if got := d.snapshot(); got.State != Degraded || got.Reason != "Misconfigured" || got.LastError != "no key" || got.NextAttempt == nil || !slices.Equal(c.acked(), []uint64{1}) {
			t.Errorf("got %+v with %v settled, want it Degraded for want of a key, and a record delivered", got, c.acked())
		}
		if text := said.String(); strings.Contains(text, "no key") || !strings.Contains(text, "delivery works again") {
			t.Errorf("got %s, want the failure of Send and its end", text)
		}
		asked := s.env.RetryNow()
		d.retryNow.Broadcast()
		<-asked
		s.env.Trouble(nil, 0)
		if got := d.snapshot(); got.State != Active || got.NextAttempt != nil {
			t.Errorf("got %+v, want it Active", got)
		}
	})
}

// Promise 3: a sink that is down is retried for ever, past the 15 minutes after
// which the backoff library would give up.
func TestDownSinkIsRetriedForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := &scriptedSink{errors: repeat(errNet, 500)}
		c := &fakeCursor{batches: [][]queue.Record{oneRecord(1)}}
		d := deliveryTo(t, s, c, slog.New(slog.DiscardHandler))
		go func() {
			time.Sleep(24 * time.Hour) // of the bubble's time
			cancel()
		}()
		d.run(ctx)
		if len(s.attempts) != 501 || !slices.Equal(c.acked(), []uint64{1}) {
			t.Errorf("%d attempts, acked %v; want 501 and [1]", len(s.attempts), c.acked())
		}
	})
}

func TestFailureKinds(t *testing.T) {
	tests := map[string]struct {
		err       error
		state     State
		reason    string
		min, max  time.Duration // of the pause before the second attempt
		failsOpen bool
	}{
		"unknown error":  {err: errNet, state: Degraded, reason: "Transient", min: 500 * time.Millisecond, max: 1500 * time.Millisecond},
		"throttled":      {err: &sinks.Failure{Kind: sinks.Throttled, After: 20 * time.Second, Err: errNet}, state: Degraded, reason: "Throttled", min: 20 * time.Second, max: 20 * time.Second},
		"throttled soon": {err: &sinks.Failure{Kind: sinks.Throttled, After: time.Millisecond, Err: errNet}, state: Degraded, reason: "Throttled", min: 500 * time.Millisecond, max: 1500 * time.Millisecond},
		"misconfigured":  {err: sinks.Failf(sinks.Misconfigured, "401"), state: Error, reason: "Misconfigured", min: time.Minute, max: time.Minute},
		"cannot open":    {err: sinks.Failf(sinks.Misconfigured, "no directory"), state: Error, reason: "Misconfigured", min: time.Minute, max: time.Minute, failsOpen: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				s := &scriptedSink{errors: []error{tt.err}}
				if tt.failsOpen {
					// Once at the start, once when there is a record.
					s.openErrors, s.errors = repeat(tt.err, 2), nil
				}
				c := &fakeCursor{batches: [][]queue.Record{oneRecord(1)}}
				d := deliveryTo(t, s, c, slog.New(slog.DiscardHandler))
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					d.run(ctx)
				}()
				synctest.Wait()
				got := d.snapshot()
				if got.State != tt.state || got.Reason != tt.reason || got.LastError != tt.err.Error() {
					t.Errorf("while failing: got %+v", got)
				}
				if got.LastErrorTime == nil || !got.LastErrorTime.Equal(time.Now()) {
					t.Errorf("time of the last error: got %v, want %v", got.LastErrorTime, time.Now())
				}
				if len(c.acked()) > 0 {
					t.Errorf("acked %v before the destination had it", c.acked())
				}
				time.Sleep(time.Hour) // of the bubble's time
				synctest.Wait()
				pause := s.attempts[len(s.attempts)-1]
				if pause < tt.min || pause > tt.max {
					t.Errorf("second attempt after %v, want %v to %v", pause, tt.min, tt.max)
				}
				if got := d.snapshot(); got.State != Active || got.Reason != "" || got.LastError == "" || got.LastErrorTime == nil || got.LastErrorTime.After(*got.Since) {
					t.Errorf("after recovery: got %+v", got)
				}
				if !slices.Equal(c.acked(), []uint64{1}) {
					t.Errorf("acked: got %v, want [1]", c.acked())
				}
				cancel()
				<-ended
			})
		})
	}
}

// Nobody should have to send a record to see that a sink is misconfigured, or
// that it no longer is.
func TestSinkIsOpenedBeforeTheFirstRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := &scriptedSink{openErrors: []error{sinks.Failf(sinks.Misconfigured, "no directory")}}
		d := deliveryTo(t, s, &fakeCursor{}, slog.New(slog.DiscardHandler))
		ended := make(chan struct{})
		go func() { defer close(ended); d.run(ctx) }()
		synctest.Wait()
		if got := d.snapshot(); got.State != Error || got.LastError != "no directory" {
			t.Errorf("before it is mended: got %+v", got)
		}
		time.Sleep(2 * time.Minute) // of the bubble's time
		synctest.Wait()
		if got := d.snapshot(); got.State != Active {
			t.Errorf("after it was mended: got %+v", got)
		}
		cancel()
		<-ended
	})
}

func TestQueueThatCannotBeReadIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := &fakeCursor{failures: repeat(errors.New("read: input/output error"), 3), batches: [][]queue.Record{oneRecord(1)}}
		d := deliveryTo(t, &scriptedSink{}, c, slog.New(slog.DiscardHandler))
		ended := make(chan struct{})
		go func() { defer close(ended); d.run(ctx) }()
		synctest.Wait()
		if got := d.snapshot(); got.State != Error || got.Reason != "Queue" {
			t.Errorf("while the queue cannot be read: got %+v", got)
		}
		time.Sleep(time.Hour) // of the bubble's time
		synctest.Wait()
		if got := c.acked(); !slices.Equal(got, []uint64{1}) {
			t.Errorf("acked: got %v, want [1]", got)
		}
		cancel()
		<-ended
	})
}

func TestStampKeepsTheOtherBytes(t *testing.T) {
	received := time.Date(2026, 1, 5, 10, 4, 7, 120000000, time.UTC)
	const stamp = `"_docket":{"id":"q-7","seq":7,"source":"webhook","received":"2026-01-05T10:04:07.12Z"}`
	tests := map[string]struct{ record, want string }{
		"members":             {`{"a":1.10}`, `{"a":1.10,` + stamp + `}`},
		"empty":               {`{}`, `{` + stamp + `}`},
		"empty with space":    {`{ }`, `{ ` + stamp + `}`},
		"space around":        {" {\"a\":{}} \t", ` {"a":{},` + stamp + "} \t"},
		"brace in the string": {`{"a":"}"}`, `{"a":"}",` + stamp + `}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			k := packer{stamps: true}
			r := queue.Record{Seq: 7, Incarnation: "q", Source: "webhook", Received: received, Data: []byte(tt.record)}
			var b batch
			k.pack(&b, []queue.Record{r, r})
			for i, it := range b.Items {
				if string(it.Record) != tt.want {
					t.Errorf("item %d: got %s, want %s", i, it.Record, tt.want)
				}
				if !json.Valid(it.Record) {
					t.Errorf("item %d is not JSON: %s", i, it.Record)
				}
			}
			if string(r.Data) != tt.record {
				t.Errorf("the queue's bytes were changed to %s", r.Data)
			}
		})
	}
}

// panickyConfig panics when its sink is first opened.
type panickyConfig struct {
	*funcSink
	opened bool
}

func (c *panickyConfig) Open(context.Context, sinks.Env) (sinks.Sink, error) {
	if !c.opened {
		c.opened = true
		panic("index out of range")
	}
	return c.funcSink, nil
}

// A sink that panics while it is opened must not end the others.
func TestOpeningPanics(t *testing.T) {
	d := newTestDelivery(t, SinkConfig{Config: &panickyConfig{funcSink: &funcSink{}}}, &fakeCursor{}, slog.New(slog.DiscardHandler))
	if sink, err := d.opened(t.Context()); sink != nil || err == nil || !strings.Contains(err.Error(), "index out of range") {
		t.Fatalf("opened = %v, %v; want the panic as an error", sink, err)
	}
	if _, err := d.opened(t.Context()); err != nil {
		t.Errorf("opened again = %v, want nil", err)
	}
}

// trickle hands out its batches slowly.
type trickle struct{ fakeCursor }

func (c *trickle) Next(ctx context.Context, l queue.Limits) ([]queue.Record, error) {
	time.Sleep(100 * time.Millisecond)
	return c.fakeCursor.Next(ctx, l)
}
