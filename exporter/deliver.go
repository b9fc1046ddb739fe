package exporter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/sinks"
)

// cursor is what a delivery needs of the queue.
type cursor interface {
	// Next waits for durable records, at most lim of them, and does not move
	// the durable position: what is not settled comes again after a restart.
	// The bytes are valid until the next call.
	Next(ctx context.Context, lim queue.Limits) ([]queue.Record, error)
	// Settle marks every record up to and including seq as done; o says how many
	// of them were not delivered. It may be called during Next.
	Settle(seq uint64, o queue.Outcome) error
	// OldestPending is when the first record that is not done was received.
	OldestPending() (time.Time, bool)
	// Account is what has become of the records before.
	Account() queue.Account
	account
	Close()
}

// delivery brings the records of the queue to one sink. All retry lives here.
//
//	round -> next -> pack -> send -> settle
//
// With a sink that is Concurrent they are not the work of one goroutine: see overlap.
type delivery struct {
	cfg      SinkConfig
	cursor   cursor
	letters  *letters
	packer   packer           // owned by run
	stored   func() uint64    // seq of the last record in the queue
	announce func(record any) // see sinks.Env
	log      *slog.Logger
	metrics  *deliveryMetrics
	health   *deliveryHealth
	reading  *trouble // with the queue or the dead letters; owned by run
	closed   *trouble // with the sink that cannot be opened; owned by run
	rejects  rejectLog

	redrives redrives // guarded by letters.redriving; its trouble is safe at any time

	opening sync.Mutex
	sink    sinks.Sink // nil until it has been opened; guarded by opening
}

func (d *delivery) newBackoff() backoff.BackOff { return newBackoff(d.cfg.Retry) }

func newBackoff(retry RetryConfig) backoff.BackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(time.Duration(retry.InitialBackoff)),
		backoff.WithMaxInterval(time.Duration(retry.MaxBackoff)),
		backoff.WithMultiplier(2),
		backoff.WithMaxElapsedTime(0)) // for ever: the default gives up after 15 minutes
}

// newDelivery prepares the delivery of cfg's records from c, the sink's cursor.
func newDelivery(cfg SinkConfig, q queueFacts, c cursor, m *deliveryMetrics, log *slog.Logger) (*delivery, error) {
	selects, err := newSelection(cfg)
	if err != nil {
		return nil, err
	}
	log = log.With("sink", cfg.Name)
	d := &delivery{
		cfg: cfg, cursor: c, stored: q.stored, announce: q.announce, metrics: m, log: log,
		letters: newLetters(q.directory, cfg, c, m, log),
		health:  newDeliveryHealth(log),
	}
	d.reading, d.closed = d.health.trouble(), d.health.trouble()
	d.redrives = redrives{trouble: d.health.trouble(), pause: d.newBackoff()}
	d.packer = d.packerOf(q, selects, c.Account())
	return d, nil
}

// queueFacts are what a delivery knows of the queue beside its cursor.
type queueFacts struct {
	id        string
	directory string
	lost      func() []queue.SeqRange // what damage has taken, in order
	stored    func() uint64           // seq of the last record that is durable
	announce  func(record any)        // stores a record about the sink, later; see sinks.Env
}

// run serves the sink until ctx is done. Whatever the sink does, its records are
// kept. When the queue cannot be read it is tried again, like a sink.
func (d *delivery) run(ctx context.Context) {
	defer d.cursor.Close()
	defer d.letters.close()
	pause := d.newBackoff()
	round := d.round
	if c, ok := d.cfg.Config.(sinks.Concurrent); ok {
		o := d.overlapping(ctx, c.MaxInFlight())
		defer o.end()
		round = o.round
	}
	for attempt := 1; ctx.Err() == nil; attempt++ {
		err := round(ctx)
		if err == nil {
			d.reading.over(attempt)
			attempt = 0
			pause.Reset()
			continue
		}
		if ctx.Err() != nil || errors.Is(err, queue.ErrClosed) {
			return
		}
		reason := "Queue"
		if errors.Is(err, errLetters) {
			reason = "DeadLetters"
		}
		d.reading.failed(Error, reason, err)
		wait(ctx, pause.NextBackOff(), nil)
	}
}

// round delivers one batch, or what is to be delivered again from the dead
// letters.
func (d *delivery) round(ctx context.Context) error {
	awake, stop := d.letters.untilWanted(ctx)
	defer stop()
	if again, err := d.redrive(ctx); again || err != nil {
		return err
	}
	records, err := d.next(ctx, awake)
	if err != nil || len(records) == 0 {
		return err
	}
	p := d.packer.pack(records)
	d.letters.forgetPending(p.first, p.last)
	aside, err := d.deliver(ctx, p)
	if err != nil {
		return err
	}
	d.settle(p, aside)
	return nil
}

// next waits for records; it returns none when awake is done, as there is something to
// redrive. While the sink is not open it tries in between whether it can be, so that
// nobody has to wait for a record to see that a sink is misconfigured, or no longer is.
func (d *delivery) next(ctx, awake context.Context) ([]queue.Record, error) {
	limits := queue.Limits{
		Records: d.cfg.Batch.MaxRecords,
		Bytes:   int(d.cfg.Batch.MaxBytes),
		Wait:    time.Duration(d.cfg.Batch.MaxWait),
	}
	pause := d.newBackoff()
	for attempt := 1; ; attempt++ {
		_, err := d.opened(ctx)
		if err == nil {
			d.closed.over(attempt)
			break
		}
		d.metrics.failed(sinks.FailureOf(err).Kind)
		failure := d.closed.sinkFailed(err)
		soon, cancel := context.WithTimeout(awake, d.delay(failure, pause.NextBackOff()))
		records, err := d.cursor.Next(soon, limits)
		cancel()
		if err == nil || !errors.Is(err, context.DeadlineExceeded) {
			return records, unlessWanted(err)
		}
	}
	if d.reading.isOpen() || d.redrives.isOpen() {
		// Whether the queue can be read again is news, whether or not there is a record;
		// and what could not be redriven is tried again.
		soon, cancel := context.WithTimeoutCause(awake, time.Duration(d.cfg.Retry.InitialBackoff), errNothing)
		defer cancel()
		awake = soon
	}
	records, err := d.cursor.Next(awake, limits)
	return records, unlessWanted(err)
}

// wait returns after pause, or when ctx is done or early is closed. A nil early never is.
func wait(ctx context.Context, pause time.Duration, early <-chan struct{}) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-early:
	}
}

// deliver brings the items of p to the destination, and returns how many of them
// it has rejected for good. Its error is that ctx is done.
func (d *delivery) deliver(ctx context.Context, p *parcel) (aside uint64, err error) {
	if len(p.batch.Items) == 0 && len(p.batch.Gaps) == 0 {
		return 0, nil
	}
	return d.send(ctx, p.batch, tries{})
}

// settle lets the queue go on: all of p is done, aside of its items not by a
// delivery.
func (d *delivery) settle(p *parcel, aside uint64) {
	o := queue.Outcome{Filtered: p.filtered}
	if d.cfg.OnReject == DropRejected {
		o.Dropped = aside
		d.metrics.droppedRejected.Add(aside)
	} else {
		o.DeadLettered = aside
	}
	if err := d.cursor.Settle(p.last, o); err != nil {
		d.log.Error("delivered records cannot be settled: this is a bug, and they come again", "error", err)
		return
	}
	if o.DeadLettered > 0 {
		d.letters.settled()
	}
}

// opened returns the sink, opening it when that has not succeeded yet.
func (d *delivery) opened(ctx context.Context) (sinks.Sink, error) {
	d.opening.Lock()
	defer d.opening.Unlock()
	if d.sink == nil {
		sink, err := d.cfg.Config.Open(ctx, sinks.Env{Name: d.cfg.Name, Log: d.log, Announce: d.announce})
		if err != nil {
			return nil, err
		}
		d.sink = sink
	}
	return d.sink, nil
}

// close releases the sink. run must have returned.
func (d *delivery) close(ctx context.Context) error {
	d.opening.Lock()
	defer d.opening.Unlock()
	if d.sink == nil {
		return nil
	}
	if err := d.sink.Close(ctx); err != nil {
		return fmt.Errorf("sink %s: close: %w", d.cfg.Name, err)
	}
	return nil
}
