package exporter

import (
	"context"
	"errors"
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
// accepted it, or will never take it, and what onReject says has been done. It
// returns how many of the latter there are. Its error is that ctx is done.
func (d *delivery) send(ctx context.Context, b sinks.Batch, before tries) (aside uint64, err error) {
	pause := d.newBackoff()
	for attempt := 1; ; attempt++ {
		err := d.attempt(ctx, b)
		if err == nil {
			d.succeeded(attempt)
			return 0, nil
		}
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		if f := sinks.FailureOf(err); f.Kind == sinks.Rejected && len(b.Items) > 0 {
			d.metrics.failed(f.Kind)
			return d.rejected(ctx, b, f, before.again())
		}
		wait(ctx, d.delay(d.sinkFailed(err), pause.NextBackOff()))
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
	}
}

// attempt makes one Send, opening the sink first when that has not succeeded yet.
func (d *delivery) attempt(ctx context.Context, b sinks.Batch) error {
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

// rejected finds the records of b that the destination will never take: those that
// f names, or by halving b until one is alone. The others are sent.
func (d *delivery) rejected(ctx context.Context, b sinks.Batch, f *sinks.Failure, t tries) (aside uint64, err error) {
	switch {
	case len(f.Items) > 0 && d.cfg.OnReject != BlockAt:
		if err := d.setAside(ctx, b, f, t); err != nil {
			return 0, err
		}
		aside, others := uint64(len(f.Items)), without(b, f.Items)
		if len(others.Items) == 0 {
			return aside, nil
		}
		more, err := d.send(ctx, others, t)
		return aside + more, err
	case len(b.Items) > 1:
		for _, part := range halves(b, f.Items) {
			more, err := d.send(ctx, part, t)
			if err != nil {
				return aside, err
			}
			aside += more
		}
		return aside, nil
	case d.cfg.OnReject == BlockAt:
		return 0, d.insist(ctx, b, f)
	}
	f.Items = []int{0}
	if len(f.Each) != 1 {
		f.Each = nil
	}
	return 1, d.setAside(ctx, b, f, t)
}

// halves cuts b in two parts, in the middle or, when it is known which item is the
// first to be rejected, before that or behind it: what lies before it is delivered.
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

// without returns b less the items at the given indexes.
func without(b sinks.Batch, indexes []int) sinks.Batch {
	var rest []sinks.Item
	for i, it := range b.Items {
		if !slices.Contains(indexes, i) {
			rest = append(rest, it)
		}
	}
	b.Items = rest
	return b
}

// insist offers the one record of b until the destination takes it: that is what
// onReject Block asks for.
func (d *delivery) insist(ctx context.Context, b sinks.Batch, f *sinks.Failure) error {
	var err error = f
	for attempt := 2; ; attempt++ {
		wait(ctx, d.delay(d.sinkFailed(err), time.Duration(d.cfg.Retry.MaxBackoff)))
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err = d.attempt(ctx, b); err == nil {
			d.succeeded(attempt)
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// setAside does what onReject says with the items of b that f names. They are
// durable as dead letters on return. While they cannot be, nothing goes on: they
// would be lost. Its error is that ctx is done.
func (d *delivery) setAside(ctx context.Context, b sinks.Batch, f *sinks.Failure, t tries) error {
	list := lettersOf(b, f, t)
	d.log.Warn("destination rejects records: "+asideText[d.cfg.OnReject], "records", len(list),
		"firstID", b.ID(f.Items[0]), "status", list[0].Status, "answer", list[0].Answer, "error", f.Error())
	late := b.Items[0].Late == sinks.Redriven
	if d.cfg.OnReject == DropRejected {
		return d.drop(list, late)
	}
	for attempt := 1; ; attempt++ {
		changed := d.letters.change()
		err := d.letters.add(list, late)
		if err == nil {
			for _, l := range list {
				d.metrics.setAside(l.Status)
			}
			return nil
		}
		reason := "DeadLetters"
		if errors.Is(err, deadletter.ErrFull) {
			reason = "DeadLettersFull"
		}
		d.failed(deliveryState{state: Error, reason: reason, lastError: err.Error()})
		if reason == "DeadLettersFull" && !late {
			// What is to be delivered again takes room as well.
			if _, err := d.redrive(ctx); err != nil && ctx.Err() == nil {
				d.log.Warn("dead letters cannot be delivered again", "error", err)
			}
		}
		select {
		case <-changed:
		case <-time.After(time.Duration(d.cfg.Retry.MaxBackoff)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// drop gives rejected records up. Those that came from the dead letters leave them
// for good, and the account counts them as purged.
func (d *delivery) drop(list []deadletter.Letter, redriven bool) error {
	if redriven {
		_, err := d.letters.purge(seqsOf(list))
		return err
	}
	d.metrics.droppedRejected.Add(uint64(len(list)))
	return nil
}

// asideText says what becomes of rejected records.
var asideText = map[OnReject]string{
	DeadLetter:   "they are set aside as dead letters",
	DropRejected: "they are dropped, as onReject says",
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
