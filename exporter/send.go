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

// tries counts rejected attempts with the same records, as parts of
// larger batches.
type tries struct {
	n      int
	first  time.Time
	number uint64 // of the first, see suspicion.clock
}

func (t tries) again(s *suspicion) tries {
	if t.n == 0 {
		s.clock++
		t.first, t.number = time.Now(), s.clock
	}
	t.n++
	return t
}

// send attempts b until the fate of each item is decided: the destination has accepted
// it, or will never take it, and what onReject says has been done. It returns how many
// the destination will never take. Its error is that ctx is done, or errFinishing: items that are
// not decided stay where they are.
func (d *delivery) send(ctx context.Context, b sinks.Batch, t tries) (rejected uint64, err error) {
	pause, failing, policy := d.newBackoff(), d.health.failure(), d.cfg.OnReject
	defer failing.forget()
	throttled := 0 // attempts in a row
	for attempt := 1; ; attempt++ {
		if b = d.left(b); len(b.Items) == 0 && len(b.Gaps) == 0 {
			return rejected, nil
		}
		err := d.attempt(ctx, b)
		if err == nil {
			failing.over(attempt)
			d.metrics.accepted(b.Items)
			return rejected, nil
		}
		if ctx.Err() != nil {
			return rejected, context.Cause(ctx)
		}
		f := sinks.FailureOf(err).Check(len(b.Items))
		isRejected := f.Kind == sinks.Rejected && len(b.Items) > 0
		if isRejected {
			t = t.again(&d.suspicion)
		}
		proven, isHeld := isRejected && (f.Taken || d.suspicion.tookSince(t) || !d.judges(ctx)), false
		if isRejected && len(b.Items) > 1 && (len(f.Items) == 0 || policy == BlockAt || !proven && len(f.Items) < len(b.Items)) {
			failing.over(attempt) // it answers
			return d.sendHalves(ctx, halves(b, f.Items), t)
		}
		if isRejected && policy != BlockAt && !proven {
			hold := d.tryOthers(ctx, b, attempt, f, t)
			if hold == nil && d.suspicion.tookSince(t) {
				continue // another one is accepted: is it refused again?
			}
			if isHeld = hold != nil; isHeld {
				f = hold
			}
		}
		if !isRejected || isHeld || policy == BlockAt {
			backoff := pause.NextBackOff()
			delay := d.delay(failing.metAtSink(f), backoff)
			if isHeld && f.Kind == sinks.Misconfigured {
				delay = backoff // the next record may show that it was this one's fault
			}
			failing.waits(delay)
			d.wait(ctx, delay)
			if ctx.Err() != nil {
				return rejected, context.Cause(ctx)
			}
			if d.isFinishing() {
				return rejected, errFinishing
			}
			if throttled++; f.Kind != sinks.Throttled {
				throttled = 0
			}
			if throttled == 2 && len(b.Items) > 1 { // it may be more than the destination ever takes at once
				failing.forget()
				return d.sendHalves(ctx, halves(b, nil), t)
			}
			continue
		}
		if len(b.Items) == 1 {
			f = alone(f)
		}
		items := lettersOf(b, f, t)
		again, err := d.reject(ctx, failing, items)
		if err != nil {
			return rejected, err
		}
		if again {
			continue // perhaps the destination takes it by now
		}
		d.rejects.tell(d.log, policy, b.ID(f.Items[0]), items)
		if policy == DeadLetter {
			for _, l := range items {
				d.metrics.rejected(l.Status)
			}
		}
		failing.over(attempt)
		rejected += uint64(len(items))
		b = d.without(b, f.Items)
	}
}

// sendHalves sends the parts of a batch one after the other.
func (d *delivery) sendHalves(ctx context.Context, parts [2]sinks.Batch, t tries) (rejected uint64, err error) {
	for _, part := range parts {
		more, err := d.send(ctx, part, t)
		rejected += more
		if err != nil {
			return rejected, err
		}
	}
	return rejected, nil
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
			err = d.panicked(r)
		}
		if err != nil && ctx.Err() == nil {
			d.metrics.failed(sinks.FailureOf(err).Kind)
		}
	}()
	sink, err := d.opened(ctx)
	if err != nil {
		return err
	}
	send := sink.Send
	if undoes, ok := sink.(sinks.Trying); ok && len(b.Items) > 0 && b.Items[0].Late == sinks.Ahead {
		send = undoes.Try
	}
	d.suspicion.clock++
	began, number := time.Now(), d.suspicion.clock
	err = send(ctx, b)
	d.metrics.sent(time.Since(began))
	takes := err == nil && len(b.Items) > 0 || err != nil && sinks.FailureOf(err).Taken
	if takes {
		d.suspicion.took.Store(number)
	}
	return err
}

// panicked is the failure of a sink that panics with r.
func (d *delivery) panicked(r any) error {
	err := fmt.Errorf("sink %s panics: %v", d.cfg.Kind, r)
	if d.panics.Fails(err.Error()) {
		d.log.Error("sink panics: this is a bug in it", "panic", r, "stack", string(debug.Stack()))
	}
	return err
}

// delay is how long to wait after a failure: the backoff, but not before the
// time that the destination has named, and the longest pause for failures that only an
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
// first to be rejected, before that or behind it: the items before it are delivered.
func halves(b sinks.Batch, rejected []int) [2]sinks.Batch {
	at := len(b.Items) / 2
	if len(rejected) > 0 {
		at = max(rejected[0], 1)
	}
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
		gone = append(gone, sinks.Gap{From: it.Seq, To: it.Seq, Reason: gapOf[d.cfg.OnReject]})
	}
	if d.cfg.ordered() {
		rest.Gaps = slices.SortedFunc(slices.Values(slices.Concat(b.Gaps, gone)), func(a, b sinks.Gap) int { return cmp.Compare(a.From, b.From) })
	}
	return rest
}

// gapOf is the reason of the gap that a rejected record leaves.
var gapOf = map[OnReject]sinks.GapReason{DeadLetter: sinks.DeadLettered, DropRejected: sinks.Dropped}

// left is b without what was tried ahead of its turn, and accepted.
func (d *delivery) left(b sinks.Batch) sinks.Batch {
	isTaken := func(it sinks.Item) bool { return d.suspicion.ahead[it.Seq] }
	if len(d.suspicion.ahead) > 0 && slices.ContainsFunc(b.Items, isTaken) {
		b.Items = slices.DeleteFunc(slices.Clone(b.Items), isTaken)
	}
	return b
}

// reject keeps items as dead letters, unless they are dropped: those are counted when
// their batch is settled. While they cannot be kept nothing goes on, for they would be
// lost: it reports then, after a wait, that they are to be attempted again. Letters that are
// redriven meanwhile make room.
func (d *delivery) reject(ctx context.Context, f *failure, items []deadletter.Letter) (again bool, err error) {
	if d.cfg.OnReject == DropRejected {
		return false, nil
	}
	if err = d.letters.add(items); err == nil {
		return false, nil
	}
	reason := "DeadLetters"
	if errors.Is(err, deadletter.ErrFull) {
		reason = "DeadLettersFull"
	}
	pause := time.Duration(d.cfg.Retry.MaxBackoff)
	f.met(Error, reason, err)
	f.waits(pause)
	if d.redrive(ctx); d.redriving.more {
		return true, nil
	}
	soon, wake := d.letters.waiting(ctx, d.redriving.changes)
	defer wake(nil)
	d.wait(soon, pause)
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if d.isFinishing() {
		return false, errFinishing
	}
	return true, nil
}

func lettersOf(b sinks.Batch, f *sinks.Failure, t tries) []deadletter.Letter {
	now := time.Now().UTC()
	list := make([]deadletter.Letter, len(f.Items))
	for n, i := range f.Items {
		it, said := b.Items[i], f.Answer(i)
		list[n] = deadletter.Letter{
			Seq: it.Seq, Incarnation: b.Queue, Source: it.Source, Producer: it.Producer, Received: it.Received,
			Reason: f.Error(), Status: said.Status, Answer: said.Text,
			Attempts: t.n, FirstFailed: t.first.UTC(), LastFailed: now,
			Record: it.Record,
		}
	}
	return list
}
