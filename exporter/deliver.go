package exporter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/sinks"
)

// cursor is what a delivery needs of the queue.
type cursor interface {
	// Next waits for durable records, at most lim of them, and does not move
	// the durable position: what is not acked comes again after a restart.
	// The bytes are valid until the next call.
	Next(ctx context.Context, lim queue.Limits) ([]queue.Record, error)
	// Ack marks every record up to and including seq as done.
	Ack(seq uint64) error
	// OldestPending is when the first record that is not done was received.
	OldestPending() (time.Time, bool)
	// Account is what has become of the records before.
	Account() queue.Account
	Close()
}

// delivery brings the records of the queue to one sink. All retry lives here.
type delivery struct {
	cfg     SinkConfig
	queueID string
	cursor  cursor
	log     *slog.Logger
	metrics *deliveryMetrics

	sink    sinks.Sink // nil until it has been opened; owned by run
	items   []sinks.Item
	stamped []byte // the records of items, when cfg.Stamp

	mu    sync.Mutex
	state deliveryState // guarded by mu
}

// deliveryState is what /status shows of a delivery.
type deliveryState struct {
	state     State
	reason    string
	lastError string
	failed    time.Time // when lastError was met last; zero: never
	since     time.Time
}

func newDelivery(cfg SinkConfig, queueID string, c cursor, m *deliveryMetrics, log *slog.Logger) *delivery {
	return &delivery{
		cfg: cfg, queueID: queueID, cursor: c, metrics: m, log: log.With("sink", cfg.Name),
		state: deliveryState{state: Active, since: time.Now()},
	}
}

// run serves the sink until ctx is done. Whatever the sink does, its records are
// kept. When the queue cannot be read it is tried again, like a sink.
func (d *delivery) run(ctx context.Context) {
	defer d.cursor.Close()
	pause := d.newBackoff()
	for ctx.Err() == nil {
		err := d.round(ctx)
		if err == nil {
			pause.Reset()
			continue
		}
		if ctx.Err() != nil || errors.Is(err, queue.ErrClosed) {
			return
		}
		d.failed(deliveryState{state: Error, reason: "Queue", lastError: err.Error()})
		wait(ctx, pause.NextBackOff())
	}
}

// round delivers one batch.
func (d *delivery) round(ctx context.Context) error {
	records, err := d.next(ctx)
	if err != nil {
		return err
	}
	if err := d.deliver(ctx, d.batchOf(records)); err != nil {
		return err
	}
	return d.cursor.Ack(records[len(records)-1].Seq)
}

// next waits for records. While the sink is not open it tries in between whether
// it can be, so that nobody has to wait for a record to see that a sink is
// misconfigured, or no longer is.
func (d *delivery) next(ctx context.Context) ([]queue.Record, error) {
	limits := queue.Limits{
		Records: d.cfg.Batch.MaxRecords,
		Bytes:   int(d.cfg.Batch.MaxBytes),
		Wait:    time.Duration(d.cfg.Batch.MaxWait),
	}
	pause := d.newBackoff()
	for attempt := 1; d.sink == nil; attempt++ {
		err := d.open(ctx)
		if err == nil {
			d.succeeded(attempt)
			break
		}
		failure := d.sinkFailed(err)
		soon, cancel := context.WithTimeout(ctx, d.delay(failure, pause.NextBackOff()))
		records, err := d.cursor.Next(soon, limits)
		cancel()
		if err == nil || !errors.Is(err, context.DeadlineExceeded) {
			return records, err
		}
	}
	return d.cursor.Next(ctx, limits)
}

// wait returns after pause, or when ctx is done.
func wait(ctx context.Context, pause time.Duration) {
	select {
	case <-time.After(pause):
	case <-ctx.Done():
	}
}

// deliver attempts b until the destination has accepted it. Its error is that
// ctx is done.
func (d *delivery) deliver(ctx context.Context, b sinks.Batch) error {
	pause := d.newBackoff()
	for attempt := 1; ; attempt++ {
		err := d.attempt(ctx, b)
		if err == nil {
			d.succeeded(attempt)
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		wait(ctx, d.delay(d.sinkFailed(err), pause.NextBackOff()))
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

func (d *delivery) newBackoff() backoff.BackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(time.Duration(d.cfg.Retry.InitialBackoff)),
		backoff.WithMaxInterval(time.Duration(d.cfg.Retry.MaxBackoff)),
		backoff.WithMultiplier(2),
		backoff.WithMaxElapsedTime(0)) // for ever: the default gives up after 15 minutes
}

// delay is how long to wait after a failure: the backoff, but not before the
// time that the destination has named, and the longest pause for what only an
// operator can mend.
func (d *delivery) delay(f *sinks.Failure, backoff time.Duration) time.Duration {
	switch f.Kind {
	case sinks.Throttled:
		return max(f.After, backoff)
	case sinks.Misconfigured, sinks.Rejected:
		return time.Duration(d.cfg.Retry.MaxBackoff)
	default:
		return backoff
	}
}

// attempt makes one Send, opening the sink first when that has not succeeded yet.
func (d *delivery) attempt(ctx context.Context, b sinks.Batch) error {
	if d.sink == nil {
		if err := d.open(ctx); err != nil {
			return err
		}
	}
	began := time.Now()
	err := d.sink.Send(ctx, b)
	d.metrics.sent(time.Since(began))
	return err
}

func (d *delivery) open(ctx context.Context) error {
	sink, err := d.cfg.Config.Open(ctx, sinks.Env{Name: d.cfg.Name, Log: d.log})
	if err != nil {
		return err
	}
	d.sink = sink
	return nil
}

// close releases the sink. run must have returned.
func (d *delivery) close(ctx context.Context) error {
	if d.sink == nil {
		return nil
	}
	if err := d.sink.Close(ctx); err != nil {
		return fmt.Errorf("sink %s: close: %w", d.cfg.Name, err)
	}
	return nil
}

// sinkFailed records a failed attempt and says of which kind it is.
func (d *delivery) sinkFailed(err error) *sinks.Failure {
	f := sinks.FailureOf(err)
	d.metrics.failed(f.Kind)
	state := Degraded
	if f.Kind == sinks.Misconfigured || f.Kind == sinks.Rejected {
		state = Error
	}
	d.failed(deliveryState{state: state, reason: f.Kind.String(), lastError: f.Error()})
	return f
}

// failed records a failure. It is logged when it begins and when it changes, not
// at every attempt.
func (d *delivery) failed(now deliveryState) {
	now.failed = time.Now()
	now.since = now.failed
	d.mu.Lock()
	before := d.state
	if before.state == now.state {
		now.since = before.since
	}
	d.state = now
	d.mu.Unlock()
	if before.reason == now.reason && before.lastError == now.lastError {
		return
	}
	level := slog.LevelWarn
	if now.state == Error {
		level = slog.LevelError
	}
	d.log.Log(context.Background(), level, "delivery fails: records are kept and tried again", "reason", now.reason, "error", now.lastError)
}

func (d *delivery) succeeded(attempts int) {
	d.mu.Lock()
	before := d.state
	if before.state != Active {
		// The last error stays for whoever asks later what it was.
		d.state = deliveryState{state: Active, lastError: before.lastError, failed: before.failed, since: time.Now()}
	}
	d.mu.Unlock()
	if before.state != Active {
		d.log.Info("delivery works again", "attempts", attempts, "after", time.Since(before.since).Round(time.Millisecond).String())
	}
}

// batchOf makes the batch that the sink gets. It is valid until the next call.
func (d *delivery) batchOf(records []queue.Record) sinks.Batch {
	d.items, d.stamped = d.items[:0], d.stamped[:0]
	for _, r := range records {
		data := r.Data
		if d.cfg.Stamp {
			data = d.stamp(r)
		}
		d.items = append(d.items, sinks.Item{Seq: r.Seq, Source: r.Source, Producer: r.Producer, Received: r.Received, Record: data})
	}
	return sinks.Batch{Queue: d.queueID, Items: d.items}
}

// stamp appends the member "_docket" to the object of r without touching its
// other bytes. The result is part of d.stamped, or of what that was before it
// had to grow.
func (d *delivery) stamp(r queue.Record) []byte {
	from := len(d.stamped)
	end := len(r.Data) - 1
	for r.Data[end] != '}' { // white space may follow the object
		end--
	}
	b := d.stamped
	b = append(b, r.Data[:end]...)
	if !emptyObject(r.Data[:end]) {
		b = append(b, ',')
	}
	b = append(b, `"_docket":{"id":"`...)
	b = append(b, d.queueID...)
	b = append(b, '-')
	b = strconv.AppendUint(b, r.Seq, 10)
	b = append(b, `","seq":`...)
	b = strconv.AppendUint(b, r.Seq, 10)
	b = append(b, `,"source":"`...)
	b = append(b, r.Source...) // a name from the configuration: nothing to escape
	b = append(b, `","received":"`...)
	b = r.Received.AppendFormat(b, time.RFC3339Nano)
	b = append(b, `"}`...)
	b = append(b, r.Data[end:]...)
	d.stamped = b
	return b[from:len(b):len(b)]
}

// emptyObject reports whether an object, up to but without its last brace, has
// no members.
func emptyObject(b []byte) bool {
	for i := len(b) - 1; i >= 0; i-- {
		switch b[i] {
		case ' ', '\t', '\r':
		default:
			return b[i] == '{'
		}
	}
	return false
}

// snapshot returns what /status shows.
func (d *delivery) snapshot() SinkStatus {
	d.mu.Lock()
	s := d.state
	d.mu.Unlock()
	status := SinkStatus{
		Name: d.cfg.Name, State: s.state, Reason: s.reason, LastError: s.lastError, Since: &s.since,
		Cursor: d.cursor.Account().Next,
	}
	if !s.failed.IsZero() {
		status.LastErrorTime = &s.failed
	}
	if oldest, ok := d.cursor.OldestPending(); ok {
		status.LagSeconds = time.Since(oldest).Seconds()
	}
	return status
}
