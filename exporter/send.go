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
		t.first, t.number = time.Now(), s.clock.Add(1)
	}
	t.n++
	return t
}

// feed is where the batches of a send come from. It keeps or drops rejected items.
type feed interface {
	// onReject says which of the two.
	onReject() OnReject
	// left is b without the items that were given up meanwhile.
	left(b sinks.Batch) sinks.Batch
	// tryOthers is called before b, each of which f refuses, is given up, if nothing was accepted since
	// its first refusal. hold: b waits, and this is why.
	tryOthers(ctx context.Context, b sinks.Batch, round int, f *sinks.Failure, t tries) (hold *sinks.Failure)
	// pause waits before the next attempt at b.
	pause(ctx context.Context, b sinks.Batch, pause time.Duration)
	// accepted is told that the destination has accepted all of b.
	accepted(ctx context.Context, b sinks.Batch) error
	// reject keeps or drops items, durably. When it cannot now, and f is to be
	// attempted again, it reports that, after a wait. proven: the destination accepts others.
	reject(ctx context.Context, f *failure, items []deadletter.Letter, proven bool) (again bool, err error)
}

// send attempts b until the fate of each item is decided: the destination has accepted
// it, or will never take it, and what onReject says has been done. It returns how many
// the destination will never take. Its error is that ctx is done, errFinishing, or that of
// from: items that are not decided stay where they are.
func (d *delivery) send(ctx context.Context, from feed, b sinks.Batch, t tries) (rejected uint64, err error) {
	pause, failing, policy := d.newBackoff(), d.health.failure(), from.onReject()
	defer failing.forget()
	throttled := 0 // attempts in a row
	for attempt := 1; ; attempt++ {
		if b = from.left(b); len(b.Items) == 0 && len(b.Gaps) == 0 {
			return rejected, nil
		}
		err := d.attempt(ctx, b)
		if err == nil {
			failing.over(attempt)
			return rejected, from.accepted(ctx, b)
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
			return d.sendHalves(ctx, from, halves(b, f.Items), t)
		}
		if isRejected && policy != BlockAt && !proven {
			hold := from.tryOthers(ctx, b, attempt, f, t)
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
			from.pause(ctx, b, delay)
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
				return d.sendHalves(ctx, from, halves(b, nil), t)
			}
			continue
		}
		if len(b.Items) == 1 {
			f = alone(f)
		}
		items := lettersOf(b, f, t)
		again, err := from.reject(ctx, failing, items, proven)
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
func (d *delivery) sendHalves(ctx context.Context, from feed, parts [2]sinks.Batch, t tries) (rejected uint64, err error) {
	for _, part := range parts {
		more, err := d.send(ctx, from, part, t)
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
	began, number := time.Now(), d.suspicion.clock.Add(1)
	err = send(ctx, b)
	d.metrics.sent(time.Since(began))
	takes := err == nil && len(b.Items) > 0 || err != nil && sinks.FailureOf(err).Taken
	if takes {
		d.suspicion.accepted(number)
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

// fromQueue is the feed of a delivery's batches.
type fromQueue struct{ *delivery }

func (q fromQueue) onReject() OnReject { return q.cfg.OnReject }

// left is b without what was tried ahead of its turn, and accepted.
func (q fromQueue) left(b sinks.Batch) sinks.Batch {
	isTaken := func(it sinks.Item) bool { return q.suspicion.ahead[it.Seq] }
	if len(q.suspicion.ahead) > 0 && slices.ContainsFunc(b.Items, isTaken) {
		b.Items = slices.DeleteFunc(slices.Clone(b.Items), isTaken)
	}
	return b
}

func (q fromQueue) pause(ctx context.Context, _ sinks.Batch, pause time.Duration) {
	q.wait(ctx, pause)
}

// accepted counts how long b was under way. A record counts as delivered when its batch
// is settled.
func (q fromQueue) accepted(_ context.Context, b sinks.Batch) error {
	q.metrics.accepted(b.Items)
	return nil
}

// reject keeps items as dead letters, unless they are dropped: those are counted when
// their batch is settled. While they cannot be kept nothing goes on, for they would be
// lost.
func (q fromQueue) reject(ctx context.Context, f *failure, items []deadletter.Letter, _ bool) (again bool, err error) {
	if q.cfg.OnReject == DropRejected {
		return false, nil
	}
	changed := q.letters.change()
	err = q.letters.add(items)
	if err == nil {
		return false, nil
	}
	reason := "DeadLetters"
	if errors.Is(err, deadletter.ErrFull) {
		reason = "DeadLettersFull"
	}
	pause := time.Duration(q.cfg.Retry.MaxBackoff)
	f.met(Error, reason, err)
	f.waits(pause)
	select {
	case q.slot.lent <- struct{}{}: // letters that are redriven make room; no other batch may overtake this one
		<-q.slot.back
	case <-changed:
	case <-time.After(pause):
	case <-q.retryNow.Wait():
	case <-q.finishing:
		return false, errFinishing
	case <-ctx.Done():
		return false, context.Cause(ctx)
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
