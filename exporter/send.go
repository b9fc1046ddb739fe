package exporter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/docket-export/docket/exporter/deadletter"
	"github.com/docket-export/docket/sinks"
)

// tries is what is known of rejected attempts with the same records, as parts of
// larger batches.
type tries struct {
	n     int
	first time.Time
}

func (t tries) again() tries {
	if t.n == 0 {
		t.first = time.Now()
	}
	t.n++
	return t
}

// send attempts b until the fate of each item is decided: the destination has
// accepted it, or will never take it, and what onReject says has been done, or it is
// from the dead letters and was purged. It returns how many the destination will never
// take. Its error is that ctx is done or, of a batch from the dead letters, that of their
// store: what is not decided is there still.
func (d *delivery) send(ctx context.Context, b sinks.Batch, t tries) (aside uint64, err error) {
	pause, trouble := d.newBackoff(), d.health.trouble()
	defer trouble.forget()
	for attempt := 1; ; attempt++ {
		var purged <-chan struct{}
		if b, purged = d.letters.left(b); len(b.Items) == 0 && len(b.Gaps) == 0 {
			return aside, nil
		}
		err := d.attempt(ctx, b)
		if err == nil {
			trouble.over(attempt)
			return aside, d.accepted(ctx, b)
		}
		if ctx.Err() != nil {
			return aside, context.Cause(ctx)
		}
		f := sinks.FailureOf(err).Check(len(b.Items))
		if f.Kind != sinks.Rejected || len(b.Items) == 0 {
			wait(ctx, d.delay(trouble.sinkFailed(f), pause.NextBackOff()), purged)
			continue
		}
		t = t.again()
		policy := d.policy(b)
		if len(b.Items) == 1 && policy == BlockAt {
			wait(ctx, d.delay(trouble.sinkFailed(f), 0), nil)
			continue
		}
		if len(b.Items) > 1 && (len(f.Items) == 0 || policy == BlockAt) {
			trouble.over(attempt) // it answers
			return d.sendHalves(ctx, halves(b, f.Items), t)
		}
		if len(b.Items) == 1 {
			f = alone(f)
		}
		changed := d.letters.change()
		if err := d.setAside(b, f, t); err != nil {
			switch {
			case ctx.Err() != nil:
				return aside, context.Cause(ctx)
			case errors.Is(err, errPurged):
			case isRedriven(b):
				return aside, err
			default:
				d.notSetAside(ctx, trouble, err, changed)
			}
			continue // perhaps the destination takes it by now
		}
		trouble.over(attempt)
		aside += uint64(len(f.Items))
		b = d.without(b, f.Items)
	}
}

// accepted settles what the destination has accepted of the dead letters at once: what
// comes behind it may take long, or never come to an end. Records of the queue are
// settled with their batch.
func (d *delivery) accepted(ctx context.Context, b sinks.Batch) error {
	if !isRedriven(b) {
		return nil
	}
	return d.letters.accepted(ctx, b)
}

// sendHalves sends the parts of a batch one after the other.
func (d *delivery) sendHalves(ctx context.Context, parts [2]sinks.Batch, t tries) (aside uint64, err error) {
	for _, part := range parts {
		more, err := d.send(ctx, part, t)
		aside += more
		if err != nil {
			return aside, err
		}
	}
	return aside, nil
}

// policy is what becomes of rejected items of b. One that is delivered again from the
// dead letters goes back there, rather than to hold up what is behind it.
func (d *delivery) policy(b sinks.Batch) OnReject {
	if d.cfg.OnReject == BlockAt && isRedriven(b) {
		return DeadLetter
	}
	return d.cfg.OnReject
}

// alone is f, the failure of a batch of one, with that one named.
func alone(f *sinks.Failure) *sinks.Failure {
	named := *f
	if named.Items = []int{0}; len(named.Each) != 1 {
		named.Each = nil
	}
	return &named
}

// attempt makes one Send, opening the sink first when that has not succeeded yet. A
// sink that panics has failed: it must not end the others.
func (d *delivery) attempt(ctx context.Context, b sinks.Batch) (err error) {
	defer func() {
		if r := recover(); r != nil {
			d.log.Error("sink panics: this is a bug in it", "panic", r, "stack", string(debug.Stack()))
			err = fmt.Errorf("sink %s panics: %v", d.cfg.Kind, r)
		}
		if err != nil && ctx.Err() == nil {
			d.metrics.failed(sinks.FailureOf(err).Kind)
		}
	}()
	sink, err := d.opened(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	err = sink.Send(ctx, b)
	d.metrics.sent(time.Since(began))
	return err
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

// halves cuts b in two parts, in the middle or, when it is known which item is the
// first to be rejected, before that or behind it: what lies before it is delivered.
func halves(b sinks.Batch, rejected []int) [2]sinks.Batch {
	at := len(b.Items) / 2
	if len(rejected) > 0 {
		at = max(rejected[0], 1)
	}
	b.Lines = nil // they are of all items
	first, second := b, b
	first.Items, second.Items = b.Items[:at:at], b.Items[at:]
	// A gap goes with the items behind it, the last ones with the last.
	n := 0
	for n < len(b.Gaps) && b.Gaps[n].To < second.Items[0].Seq {
		n++
	}
	first.Gaps, second.Gaps = b.Gaps[:n:n], b.Gaps[n:]
	return [2]sinks.Batch{first, second}
}

// without returns b less the items at the given indexes, which rise. A sink that wants
// to know of gaps is told of them as such.
func (d *delivery) without(b sinks.Batch, indexes []int) sinks.Batch {
	rest := sinks.Batch{Queue: b.Queue, Gaps: b.Gaps}
	var gone []sinks.Gap
	for i, it := range b.Items {
		if len(indexes) == 0 || i != indexes[0] {
			rest.Items = append(rest.Items, it)
			continue
		}
		indexes = indexes[1:]
		gone = append(gone, sinks.Gap{From: it.Seq, To: it.Seq, Reason: gapOf[d.policy(b)]})
	}
	if d.cfg.Gaps && !isRedriven(b) {
		rest.Gaps = slices.SortedFunc(slices.Values(slices.Concat(b.Gaps, gone)), func(a, b sinks.Gap) int { return cmp.Compare(a.From, b.From) })
	}
	return rest
}

// gapOf is what rejected records are to a sink that does not get them.
var gapOf = map[OnReject]sinks.GapReason{DeadLetter: sinks.DeadLettered, DropRejected: sinks.Dropped}

// setAside does what onReject says with the items of b that f names. On nil they are
// durable as dead letters, or dropped.
func (d *delivery) setAside(b sinks.Batch, f *sinks.Failure, t tries) error {
	list := lettersOf(b, f, t)
	policy, late := d.policy(b), isRedriven(b)
	var err error
	if policy == DropRejected {
		err = d.drop(list, late)
	} else {
		err = d.letters.add(list, late)
	}
	if err != nil {
		return err
	}
	d.rejects.tell(d.log, policy, b.ID(f.Items[0]), list)
	if policy == DeadLetter {
		for _, l := range list {
			d.metrics.setAside(l.Status)
		}
	}
	return nil
}

// notSetAside waits after rejected records of the queue could not be set aside: nothing
// goes on, for they would be lost. It waits for the longest pause, or until changed is
// closed, which says that there may be room for letters.
func (d *delivery) notSetAside(ctx context.Context, trouble *trouble, err error, changed <-chan struct{}) {
	reason := "DeadLetters"
	if errors.Is(err, deadletter.ErrFull) {
		reason = "DeadLettersFull"
	}
	trouble.failed(Error, reason, err)
	if reason == "DeadLettersFull" {
		// What is to be delivered again takes room as well.
		if _, err := d.redrive(ctx); err != nil && ctx.Err() == nil {
			d.log.Warn("dead letters cannot be delivered again", "error", err)
		}
	}
	select {
	case <-changed:
	case <-time.After(time.Duration(d.cfg.Retry.MaxBackoff)):
	case <-ctx.Done():
	}
}

// drop gives rejected records up. Those that came from the dead letters leave them
// for good, and the account counts them as purged.
func (d *delivery) drop(list []deadletter.Letter, redriven bool) error {
	if !redriven {
		return nil // counted when the batch is settled
	}
	_, err := d.letters.purge(seqsOf(list))
	return err
}

func lettersOf(b sinks.Batch, f *sinks.Failure, t tries) []deadletter.Letter {
	now := time.Now().UTC()
	list := make([]deadletter.Letter, len(f.Items))
	for n, i := range f.Items {
		it, said := b.Items[i], f.Answer(i)
		list[n] = deadletter.Letter{
			Seq: it.Seq, Source: it.Source, Producer: it.Producer, Received: it.Received,
			Reason: f.Error(), Status: said.Status, Answer: said.Text,
			Attempts: t.n, FirstFailed: t.first.UTC(), LastFailed: now,
			Record: it.Record,
		}
	}
	return list
}
