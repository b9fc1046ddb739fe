package exporter

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/docket-export/docket/exporter/deadletter"
	"github.com/docket-export/docket/sinks"
)

// redriving is what a delivery knows of the dead letters that an operator redrives. Owned by run.
type redriving struct {
	failing  *failure // of the letters, or of their delivery
	attempts int      // failed ones in a row
	at       time.Time
	most     int  // letters in a batch: fewer, to find out which one is refused
	more     bool // the next batch can be sent at once
	changes  uint64
	// done are letters that the destination has accepted. They have only to be removed,
	// which may have failed, and are not sent once more.
	done []uint64
}

// redrive makes one attempt at one batch of the letters that an operator redrives. What fails is
// tried again after a pause, and the records of the queue go on meanwhile.
func (d *delivery) redrive(ctx context.Context) {
	r := &d.redriving
	r.more, r.changes = false, d.letters.changes.Load()
	if d.retryLetters.Swap(false) {
		r.at = time.Time{}
	}
	if time.Now().Before(r.at) {
		return
	}
	_, err := d.letters.open()
	if err == nil { // letters may wait since before the start
		r.more, err = d.redriveBatch(ctx)
	}
	if ctx.Err() != nil {
		return
	}
	if err == nil {
		r.failing.over(r.attempts + 1)
		r.at, r.attempts = time.Time{}, 0
		return
	}
	if r.attempts++; r.attempts == 1 {
		d.letterPause.Reset()
	}
	delay := d.letterPause.NextBackOff()
	if errors.Is(err, errLetters) || errors.Is(err, errAccount) {
		r.failing.met(Error, "DeadLetters", err)
	} else {
		delay = d.delay(r.failing.metAtSink(err), delay)
	}
	r.failing.waits(delay)
	r.at = time.Now().Add(delay)
}

// redriveBatch delivers one batch of letters, and reports whether there may be more.
func (d *delivery) redriveBatch(ctx context.Context) (more bool, err error) {
	r := &d.redriving
	if err := d.removeRedelivered(ctx); err != nil {
		return false, err
	}
	if d.letters.stats().Redriving == 0 {
		return false, nil
	}
	limits := d.cfg.Batch
	if r.most == 0 || r.most > limits.MaxRecords {
		r.most = limits.MaxRecords
	}
	limits.MaxRecords = r.most
	list, err := d.letters.next(d.cursor.Account().Next, limits)
	if err != nil || len(list) == 0 {
		return false, err
	}
	if d.cfg.ordered() {
		return true, d.keepAgain(list)
	}
	b := sinks.Batch{Queue: list[0].Incarnation}
	for _, l := range list {
		if l.Incarnation != b.Queue {
			break // a batch has the records of one incarnation
		}
		b.Items = append(b.Items, sinks.Item{
			Seq: l.Seq, Source: l.Source, Producer: l.Producer, Received: l.Received, Record: l.Record, Late: sinks.Redriven,
		})
	}
	if err := d.attempt(ctx, b); err != nil {
		return true, d.redriveFailed(b, sinks.FailureOf(err).Check(len(b.Items)))
	}
	for _, it := range b.Items {
		r.done = append(r.done, it.Seq)
	}
	r.most *= 2
	return true, d.removeRedelivered(ctx)
}

// redriveFailed puts back what is refused. A batch that is refused as a whole is sent again in parts,
// until the culprit is alone, and so is one for which the destination has no room.
func (d *delivery) redriveFailed(b sinks.Batch, f *sinks.Failure) error {
	switch {
	case f.Kind == sinks.Throttled: // it may be more than the destination ever takes at once
		d.redriving.most = max(1, len(b.Items)/2)
		return f
	case f.Kind != sinks.Rejected:
		return f
	case len(b.Items) == 1:
		f = alone(f)
	case len(f.Items) == 0:
		d.redriving.most = len(b.Items) / 2
		return nil
	}
	return d.letters.putBack(lettersOf(b, f, tries{n: 1, first: time.Now()}))
}

// errNoPlace is why a sink that proves its export gets nothing from the dead letters.
// It had none itself: they are of a sink that had its name before.
var errNoPlace = errors.New("this sink takes each record once, in order, and has passed this one: " +
	"give the sink its former kind and redrive the record, or purge it")

// keepAgain keeps letters that the sink would take for records that it has already: they
// would be lost, and count as delivered.
func (d *delivery) keepAgain(list []deadletter.Letter) error {
	for i := range list {
		list[i].Reason, list[i].Redriving = errNoPlace.Error(), false
		list[i].Attempts = 0 // no more than there were
	}
	err := d.letters.putBack(list)
	if err == nil {
		d.log.Warn("redriven dead letters cannot be delivered: they are kept", "records", len(list), "error", errNoPlace)
	}
	return err
}

// accountTimeout bounds how long the account of accepted letters may take to be durable.
// A stop waits for it, or the letters would come again after it. It is less than
// closeTimeout, at which the stop would wait no longer.
const accountTimeout = closeTimeout / 2

// errAccount says that the account of redelivered letters could not be made durable.
var errAccount = errors.New("account of redelivered dead letters")

// removeRedelivered removes the letters that are done, once the account that counts them as delivered
// is durable. After a crash in between they come again.
func (d *delivery) removeRedelivered(ctx context.Context) error {
	done := d.redriving.done
	if len(done) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), accountTimeout)
	defer cancel()
	err := d.cursor.Redelivered(ctx, uint64(len(done)), func() error { return d.letters.remove(slices.Clone(done)) })
	if err != nil {
		return errors.Join(errAccount, err)
	}
	d.redriving.done = nil
	return nil
}
