package exporter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/outage"
	"github.com/docket-export/docket/internal/signal"
	"github.com/docket-export/docket/sinks"
)

// cursor is what a delivery needs of the queue.
type cursor interface {
	// Next waits for durable records, at most lim of them, and does not move
	// the durable position: records that are not settled come again after a restart.
	// The bytes are valid until the next call.
	Next(ctx context.Context, lim queue.Limits) ([]queue.Record, error)
	// Settle marks every record up to and including seq as done; o says how many
	// of them were not delivered. It may be called during Next.
	Settle(seq uint64, o queue.Outcome) error
	// Account is the sink's place and the fate of the records before.
	Account() queue.Account
	// OldestPending is when the first record that is not done was received.
	OldestPending() (time.Time, bool)
	// Save returns once the account as it is now is durable.
	Save(ctx context.Context) error
	// SetReplayed sets Account.Replayed.
	SetReplayed(replayed int64)
	// Redelivered counts n records that were set aside as delivered, and calls remove
	// once that is durable. After an error nothing is counted.
	Redelivered(ctx context.Context, n uint64, remove func() error) error
	Close()
}

// delivery brings the records of the queue to one sink. All retry lives here.
//
//	round: next -> pack -> send -> settle
//
// Before each round it makes one attempt at a batch of the dead letters that an operator redrives.
type delivery struct {
	cfg       SinkConfig
	cursor    cursor
	letters   *letters
	packer    packer // owned by run
	redriving redriving
	queue     sinks.Queue   // for a sink that tells its position
	stored    func() uint64 // seq of the last record in the queue
	readAhead func(ctx context.Context, from uint64, visit func(queue.Record) (more bool)) error
	announce  func(record any) // see sinks.Env
	log       *slog.Logger
	metrics   *deliveryMetrics
	health    *deliveryHealth
	reading   *failure // of the queue or the dead letters; owned by run
	closed    *failure // of the sink that cannot be opened; owned by run
	beside    *failure // of what the sink does beside Send
	fenced    bool     // another docket took over the sink before this delivery was made
	rejects   rejectLog
	panics    outage.Log // never said to be over: the next batch may panic again

	// loop serves the sink; nil before it is started.
	loop      *loop
	finishing chan struct{} // closed by finish
	retryNow  signal.Signal // broadcast to end the pauses between attempts
	finish    func()        // has run end once the batches under way are decided, or have failed
	through   atomic.Uint64 // seq of the last record to deliver; 0: there is none, it goes on

	batch   batch                       // under way; owned by run
	refused atomic.Pointer[refusedRest] // nil unless the batch waits, and all behind it were refused

	letterPause  backoff.BackOff // owned by run
	retryLetters atomic.Bool     // an operator has the letters tried now

	opening sync.Mutex
	sink    sinks.Sink // nil until it has been opened; guarded by opening
	resumed bool       // guarded by opening

	transacts bool
	once      bool // docket ends when there is nothing more to deliver
	suspicion suspicion
	has       atomic.Uint64 // see packer.has; set before resumed
	told      atomic.Uint64 // see packer.told; set before resumed
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
		cfg: cfg, cursor: c, queue: sinks.Queue{ID: q.id, Lineage: q.lineage}, stored: q.stored, readAhead: q.readAhead, transacts: cfg.transacts(), announce: q.announce, metrics: m, log: log,
		letters: newLetters(q, cfg, log),
		health:  newDeliveryHealth(log),
		fenced:  m.transactions.fenced.Load() > 0,
	}
	d.finishing = make(chan struct{})
	d.finish = sync.OnceFunc(func() { close(d.finishing) })
	d.reading, d.closed, d.beside = d.health.failure(), d.health.failure(), d.health.failure()
	d.packer = d.packerOf(q, selects, c.Account())
	d.redriving.failing, d.letterPause, d.suspicion.ahead = d.health.failure(), d.newBackoff(), map[uint64]bool{}
	return d, nil
}

// queueFacts are what a delivery knows of the queue beside its cursor.
type queueFacts struct {
	id        string
	lineage   sinks.Lineage
	directory string
	lost      func() []segment.SeqRange // taken by damage, in order
	stored    func() uint64             // seq of the last record that is durable
	// readAhead calls visit with the records from a seq on, while it wants more. Their bytes are
	// valid until visit returns.
	readAhead func(ctx context.Context, from uint64, visit func(queue.Record) (more bool)) error
	announce  func(record any) // stores a record about the sink, later; see sinks.Env
}

// run serves the sink until ctx is done, or in order until finish is called. Whatever the
// sink does, its records are kept. When the queue cannot be read it is tried again, like a
// sink.
func (d *delivery) run(ctx context.Context) {
	defer d.cursor.Close()
	defer d.letters.close()
	making, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-d.finishing:
			stop()
		case <-making.Done():
		}
	}()
	defer d.finish()
	defer d.redriving.failing.forget()
	for d.until(making, func() error { return d.round(making, ctx) }) {
	}
}

func (d *delivery) isFinishing() bool { return isClosed(d.finishing) }

// errFinishing says that a batch failed and is not attempted again: its records stay
// pending.
var errFinishing = errors.New("delivery is finishing")

// wait returns after pause, or when ctx is done, an operator has the sink try now, or the
// delivery is to finish.
func (d *delivery) wait(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.retryNow.Wait():
	case <-d.finishing:
	case <-ctx.Done():
	}
}

// pending is how many records of a queue whose newest is last the sink is still to get.
func (d *delivery) pending(last uint64) uint64 {
	return d.pendingOf(d.cursor.Account(), last)
}

// pendingOf is pending where the account is a.
func (d *delivery) pendingOf(a state.Account, last uint64) uint64 {
	if through := d.through.Load(); through > 0 {
		last = max(min(last, through), a.Next-1)
	}
	return a.Pending(last)
}

// until calls do until it succeeds. It reports false when ctx is done or the queue is
// closed.
func (d *delivery) until(ctx context.Context, do func() error) bool {
	pause := d.newBackoff()
	for attempt := 1; ctx.Err() == nil; attempt++ {
		err := do()
		if err == nil {
			d.reading.over(attempt)
			return true
		}
		if ctx.Err() != nil || errors.Is(err, queue.ErrClosed) {
			return false
		}
		reason := "Queue"
		if errors.Is(err, errLetters) {
			reason = "DeadLetters"
		}
		d.reading.met(Error, reason, err)
		delay := pause.NextBackOff()
		d.reading.waits(delay)
		d.wait(ctx, delay)
	}
	return false
}

// round makes one batch until ctx is done, sends it until sending is, and settles it. A delivery
// that is finishing begins no other.
func (d *delivery) round(ctx, sending context.Context) error {
	d.redrive(sending)
	records, err := d.next(ctx)
	if err != nil || len(records) == 0 {
		return err
	}
	b, err := d.pack(ctx, records)
	if err != nil || d.isFinishing() {
		return err
	}
	rejected, err := d.send(sending, b.Batch, tries{})
	if err != nil {
		return nil //nolint:nilerr // sending is done, or the batch has failed and is not tried again
	}
	d.settle(b, rejected)
	return nil
}

// pack makes the batch of records, and removes the letters of those that are decided anew. A sink in
// transactions waits until they are gone: one that was there still after a crash would count as newer
// than the transaction with its record, and be redriven. Its error is that ctx is done.
func (d *delivery) pack(ctx context.Context, records []queue.Record) (*batch, error) {
	ready := func() error {
		_, err := d.letters.open()
		return err
	}
	if d.transacts && !d.until(ctx, ready) {
		return nil, context.Cause(ctx)
	}
	d.packer.has, d.packer.told = d.has.Load(), d.told.Load()
	b := &d.batch
	d.packer.pack(b, records)
	forget := func() error { return d.letters.forgetPending(max(b.first, d.packer.has), b.last) }
	if !d.transacts {
		_ = forget() // which has told
	} else if !d.until(ctx, forget) {
		return nil, context.Cause(ctx)
	}
	return b, nil
}

// errNothing ends the wait for records.
var errNothing = errors.New("there is no record")

// next waits for records, or until it is time for letters. While the sink is not open it tries in between to open it: a
// misconfigured sink shows before the first record, and so does its repair. What becomes of a
// record of a sink in transactions is not known before, nor which gaps a sink has that proves what it has.
func (d *delivery) next(ctx context.Context) ([]queue.Record, error) {
	limits := d.cfg.limits()
	pause := d.newBackoff()
	var held []queue.Record
	for attempt := 1; ; attempt++ {
		_, err := d.opened(ctx)
		if err == nil {
			d.closed.over(attempt)
			break
		}
		d.metrics.failed(sinks.FailureOf(err).Kind)
		delay := d.delay(d.closed.metAtSink(err), pause.NextBackOff())
		d.closed.waits(delay)
		if held != nil {
			if d.wait(ctx, delay); ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			continue
		}
		began := time.Now()
		records, err := d.nextWithin(ctx, delay, limits)
		switch {
		case errors.Is(err, errNothing):
		case (d.transacts || d.packer.gaps) && err == nil:
			held = records
			d.wait(ctx, delay-time.Since(began))
		default:
			return d.upTo(ctx, records), err
		}
	}
	if held != nil {
		return d.upTo(ctx, held), nil
	}
	soon, wake := d.letters.waiting(ctx, d.redriving.changes)
	defer wake(nil)
	var wait time.Duration // at most; 0: as long as it takes
	if !d.redriving.at.IsZero() {
		wait = max(1, time.Until(d.redriving.at))
	}
	if d.reading.isOpen() {
		wait = time.Duration(d.cfg.Retry.InitialBackoff) // that the queue can be read again is to show, also without a record
	}
	if d.redriving.more {
		wake(errNothing)
	} else if wait > 0 {
		bounded, cancel := context.WithTimeoutCause(soon, wait, errNothing)
		defer cancel()
		soon = bounded
	}
	records, err := d.cursor.Next(soon, limits)
	if errors.Is(err, errNothing) {
		err = nil
	}
	return d.upTo(ctx, records), err
}

// upTo returns the records that the sink is to get. A retired one gets no more at some point, and
// waits for its end then.
func (d *delivery) upTo(ctx context.Context, records []queue.Record) []queue.Record {
	if through := d.through.Load(); through > 0 && len(records) > 0 {
		if n := slices.IndexFunc(records, func(r queue.Record) bool { return r.Seq > through }); n >= 0 {
			records = records[:n]
		}
		if len(records) == 0 {
			<-ctx.Done()
		}
	}
	return records
}

// nextWithin waits for records as long as wait does; errNothing is its error then.
func (d *delivery) nextWithin(ctx context.Context, pause time.Duration, limits queue.Limits) ([]queue.Record, error) {
	soon, cancel := context.WithCancelCause(ctx)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		d.wait(soon, pause)
		cancel(errNothing)
	})
	defer waiting.Wait()
	defer cancel(nil)
	return d.cursor.Next(soon, limits)
}

// wait returns after pause, or when ctx is done.
func wait(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// settle lets the queue go on: all records of b are done.
func (d *delivery) settle(b *batch, rejected uint64) {
	o := queue.Outcome{Filtered: b.filtered, DeadLettered: b.setAside}
	if d.cfg.OnReject == DropRejected {
		o.Dropped = rejected
		d.metrics.droppedRejected.Add(rejected)
	} else {
		o.DeadLettered += rejected
	}
	if err := d.cursor.Settle(b.last, o); err != nil {
		d.log.Error("delivered records cannot be marked as done: this is a bug, and docket will redeliver them", "error", err)
		return
	}
	maps.DeleteFunc(d.suspicion.ahead, func(seq uint64, _ bool) bool { return seq <= b.last })
	d.refused.Store(nil)
}

// opened returns the sink, opening it, and having it go on where its destination is, when
// that has not succeeded yet. A sink that panics in it has failed.
func (d *delivery) opened(ctx context.Context) (sink sinks.Sink, err error) {
	d.opening.Lock()
	defer d.opening.Unlock()
	defer func() {
		if r := recover(); r != nil {
			sink, err = nil, d.panicked(r)
		}
	}()
	if d.sink == nil {
		sink, err := d.cfg.Config.Open(ctx, sinks.Env{
			Name: d.cfg.Name, Log: d.log, Announce: d.announce, Trouble: d.beside.trouble, RetryNow: d.retryNow.Wait, Transactions: d.metrics.transactions,
		})
		if err != nil {
			return nil, err
		}
		d.sink = sink
	}
	if !d.resumed {
		if err := d.resume(ctx); err != nil {
			return nil, err
		}
		d.resumed = true
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
