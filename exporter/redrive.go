package exporter

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/docket-export/docket/exporter/deadletter"
	"github.com/docket-export/docket/sinks"
)

// redriver delivers dead letters again that an operator redrives. It is a loop of its
// own beside the delivery, because a failure of the letters' disk must not hold up the
// records of the queue. Accepted letters are removed at once: the rest may take long.
type redriver struct {
	*delivery
	// done are letters that the destination has accepted. They have only to be removed,
	// which may have failed, and are not sent once more.
	done []uint64
}

// run redrives until ctx is done, or the delivery is finishing and no batch is under way.
func (r *redriver) run(ctx context.Context) {
	failing, pause := r.health.failure(), r.newBackoff()
	defer failing.forget()
	for attempt := 1; ctx.Err() == nil && !r.isFinishing(); attempt++ {
		changed := r.letters.change()
		some, err := r.round(ctx)
		if err != nil && ctx.Err() == nil && !errors.Is(err, errFinishing) {
			delay := pause.NextBackOff()
			failing.met(Error, "DeadLetters", err)
			failing.waits(delay)
			r.wait(ctx, delay)
			continue
		}
		failing.over(attempt)
		attempt = 0
		pause.Reset()
		if some {
			continue
		}
		select {
		case <-changed:
		case <-r.finishing:
		case <-ctx.Done():
		}
	}
}

// round delivers one batch of letters, and reports whether there were any. Its error is
// that of the letters' disk, or that ctx is done.
func (r *redriver) round(ctx context.Context) (some bool, err error) {
	if err := r.remove(ctx); err != nil {
		return false, err
	}
	list, err := r.letters.next(r.cfg.Batch)
	if err != nil || len(list) == 0 {
		return false, err
	}
	if r.cfg.ordered() {
		return true, r.keepAgain(list)
	}
	b := sinks.Batch{Queue: list[0].Incarnation}
	if n := slices.IndexFunc(list, func(l deadletter.Letter) bool { return l.Incarnation != b.Queue }); n > 0 {
		list = list[:n] // a batch has the records of one incarnation
	}
	for _, l := range list {
		b.Items = append(b.Items, sinks.Item{
			Seq: l.Seq, Source: l.Source, Producer: l.Producer, Received: l.Received, Record: l.Record, Late: sinks.Redriven,
		})
	}
	release, err := r.slot.acquireAny(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	_, err = r.send(ctx, r, b, tries{})
	return true, err
}

// errNoPlace is why a sink that proves its export gets nothing from the dead letters.
// It had none itself: they are of a sink that had its name before.
var errNoPlace = errors.New("this sink takes each record once, in order, and has passed this one: " +
	"give the sink its former kind and redrive the record, or purge it")

// keepAgain keeps letters that the sink would take for records that it has already: they
// would be lost, and count as delivered.
func (r *redriver) keepAgain(list []deadletter.Letter) error {
	for i := range list {
		list[i].Reason, list[i].Redriving = errNoPlace.Error(), false
		list[i].Attempts = 0 // no more than there were
	}
	err := r.letters.addAgain(list)
	if errors.Is(err, errPurged) {
		return nil // the next round is of the others
	}
	if err == nil {
		r.log.Warn("redriven dead letters cannot be delivered: they are kept", "records", len(list), "error", errNoPlace)
	}
	return err
}

// onReject is that of the sink, but a letter that is rejected again goes back to the
// others instead of blocking them.
func (r *redriver) onReject() OnReject {
	if r.cfg.OnReject == BlockAt {
		return DeadLetter
	}
	return r.cfg.OnReject
}

// left is b without the letters that were purged.
func (r *redriver) left(b sinks.Batch) sinks.Batch {
	b.Items = slices.Clone(b.Items)
	_ = r.letters.with(func(s *deadletter.Store) error {
		b.Items = slices.DeleteFunc(b.Items, func(it sinks.Item) bool { return !s.IsRedriving(it.Seq) })
		return nil
	}) // which cannot fail: the store is open
	return b
}

// tryOthers holds nothing: what is refused again goes back to the letters.
func (r *redriver) tryOthers(context.Context, sinks.Batch, int, *sinks.Failure, tries) (hold *sinks.Failure) {
	return nil
}

// pause ends early when letters of b are purged: those behind them must not wait.
func (r *redriver) pause(ctx context.Context, b sinks.Batch, pause time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, pause)
	defer cancel()
	now := r.retryNow.Wait()
	for ctx.Err() == nil && !r.isFinishing() {
		changed := r.letters.change()
		if len(r.left(b).Items) < len(b.Items) {
			return
		}
		select {
		case <-changed:
		case <-now:
			return
		case <-r.finishing:
		case <-ctx.Done():
		}
	}
}

// accepted removes the letters of b.
func (r *redriver) accepted(ctx context.Context, b sinks.Batch) error {
	for _, it := range b.Items {
		r.done = append(r.done, it.Seq)
	}
	return r.remove(ctx)
}

// accountTimeout bounds how long the account of accepted letters may take to be durable.
// A stop waits for it, or the letters would come again after it. It is less than
// closeTimeout, at which the stop would wait no longer.
const accountTimeout = closeTimeout / 2

// remove removes the letters that are done.
func (r *redriver) remove(ctx context.Context) error {
	if len(r.done) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), accountTimeout)
	defer cancel()
	if err := r.letters.redelivered(ctx, r.done); err != nil {
		return err
	}
	r.done = nil
	return nil
}

// reject puts letters back, or gives them up where others were accepted: a destination that refuses
// everything must not empty the store.
func (r *redriver) reject(_ context.Context, _ *failure, items []deadletter.Letter, proven bool) (again bool, err error) {
	if r.cfg.OnReject == DropRejected && proven {
		seqs := make([]uint64, len(items))
		for i, l := range items {
			seqs[i] = l.Seq
		}
		_, err = r.letters.purge(seqs)
	} else {
		err = r.letters.addAgain(items)
	}
	if errors.Is(err, errPurged) {
		return true, nil
	}
	return false, err
}
