package exporter

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/sinks"
)

// A queue may be an older copy of one that has gone on, and so may a destination. Sinks that know
// their position tell: they are ahead of the queue then, or behind it, and send nothing.
//
// A sink in transactions keeps its position at the destination, together with the records.
// The account in the queue follows a little later, so a crash may leave it behind. When the
// sink is opened the two are compared, once: see decide. Records that the destination has
// although the account does not say so are counted and not sent: those with a dead letter as
// set aside, for the letter is older than the transaction, those that the filter leaves out as
// filtered, and the others as delivered, rejected ones that were dropped among them.

// transacts reports whether the sink writes in transactions.
func (s *SinkConfig) transacts() bool {
	c, ok := s.Config.(sinks.Transacting)
	return ok && c.Transacts()
}

// resume has the sink go on where its destination is. It is called with every attempt to
// open the sink until it has succeeded.
func (d *delivery) resume(ctx context.Context) error {
	switch sink := d.sink.(type) {
	case sinks.Transactional:
		if d.fenced {
			return errFenced
		}
		return d.resumeAt(ctx, sink)
	case sinks.Recognizing:
		return d.recognized(ctx, sink)
	}
	return nil
}

// errFenced is why a sink that has been fenced does not begin anew when its configuration changes, or
// with a replay: it would fence the docket that has taken over.
var errFenced = sinks.Overtaken("another docket has taken over this sink")

// recognized fails when the destination has records that the queue does not know: the queue
// gives their numbers to other records, which the sink would drop. It fails, too, when the destination
// lacks records that were delivered: they were durable there before the account said so.
func (d *delivery) recognized(ctx context.Context, sink sinks.Recognizing) error {
	newest, err := sink.Newest(d.packer.queueID)
	if err != nil {
		return err
	}
	a, last := d.cursor.Account(), d.stored()
	if newest.Through < a.Next { // the sink gets what comes next
		lacks := a.Next - 1 - newest.Through
		if newest.Through > 0 && !newest.Lost && hasDelivered(a) && lacks > a.Dropped+a.Corrupt {
			return sinks.Behind(newest.Through, a.Next-1)
		}
		d.told.Store(newest.Through)
		return nil
	}
	why := ""
	if newest.Through > last {
		why = fmt.Sprintf("it has records up to %d, and the queue ends at %d", newest.Through, last)
	} else if newest.Record >= a.Next {
		received, read, err := d.received(ctx, newest.Record)
		if err != nil {
			return err
		}
		if read && !received.Equal(newest.Received) {
			why = fmt.Sprintf("its record %d differs", newest.Record)
		}
	}
	if why == "" {
		d.told.Store(newest.Through)
		return nil
	}
	return ahead(why, "Restore the destination that belongs to this queue, or give the sink a new destination, where it continues with record %d", a.Next)
}

// resumeAt is resume of a sink in transactions.
func (d *delivery) resumeAt(ctx context.Context, sink sinks.Transactional) error {
	// The account says that this sink is not the one that had its name before. Were it lost in
	// a crash behind a transaction, the next start would send the same records once more.
	soon, cancel := context.WithTimeout(ctx, accountTimeout)
	defer cancel()
	if err := d.cursor.Save(soon); err != nil {
		return fmt.Errorf("the sink's position in the queue cannot be made durable: %w", err)
	}
	var decided resumption
	var refused error
	err := sink.Resume(ctx, d.packer.queueID, func(at sinks.Position, found bool) (sinks.Position, error) {
		if found {
			d.metrics.transactions.position.Store(at.Next)
		}
		decided, refused = d.decide(ctx, at, found)
		return decided.goOn, refused
	})
	switch {
	case err != nil && refused != nil:
		return refused
	case err != nil:
		return err
	}
	d.metrics.transactions.position.Store(decided.goOn.Next)
	if decided.goOn.Replayed != decided.account.Replayed {
		d.cursor.SetReplayed(decided.goOn.Replayed)
	}
	if decided.follows {
		d.has.Store(decided.goOn.Next)
		d.log.Info("the destination already has records that are pending in the queue: docket counts them as delivered and does not send them",
			"firstSeq", decided.account.Next, "lastSeq", decided.goOn.Next-1)
	}
	if decided.absent && decided.goOn.Next > 1 {
		d.log.Info("the destination has no position for this sink: the sink continues at the queue's position", "nextSeq", decided.goOn.Next)
	}
	if decided.unread {
		d.log.Warn("the destination's last record is damaged in the queue, so docket cannot compare it", "seq", decided.goOn.Next-1)
	}
	return nil
}

// resumption is where a sink goes on.
type resumption struct {
	account queue.Account // it is based on
	goOn    sinks.Position
	absent  bool // the destination has no position
	follows bool // records from account.Next to goOn.Next are at the destination
	unread  bool // the last of them cannot be read
}

// decide says where the sink goes on whose destination is at a position. The account wins
// where it is of a later replay, or further. Otherwise the destination does, if what it has is
// of this queue.
func (d *delivery) decide(ctx context.Context, at sinks.Position, found bool) (resumption, error) {
	a, last := d.cursor.Account(), d.stored()
	own := resumption{account: a, goOn: sinks.Position{Next: a.Next, Replayed: a.Replayed}, absent: !found}
	switch {
	case !found || at.Replayed < a.Replayed:
		return d.withReceived(ctx, own)
	case at.Replayed > a.Replayed && a.Replayed != 0 && at.Replayed > time.Now().UnixNano():
		return resumption{}, &sinks.Failure{Kind: sinks.Misconfigured, Reason: sinks.PositionAhead, Err: fmt.Errorf(
			"the destination's position is from a replay at %s, which is in the future: a clock was wrong, and docket would take a replay now for an older one. Delete the position at the destination (docs/sinks/kafka.md) to continue with record %d, the queue's position",
			time.Unix(0, at.Replayed).UTC().Format(time.RFC3339), a.Next)}
	case at.Replayed > a.Replayed && a.Replayed != 0:
		return resumption{}, d.aheadInTransactions(a, fmt.Sprintf("the sink was replayed or new at %s, and this queue does not know that", time.Unix(0, at.Replayed).UTC().Format(time.RFC3339)))
	case at.Next > last+1:
		return resumption{}, d.aheadInTransactions(a, fmt.Sprintf("it has records up to %d, and the queue ends at %d", at.Next-1, last))
	}
	own.goOn.Replayed = at.Replayed
	if at.Next <= a.Next {
		return d.withReceived(ctx, own)
	}
	received, read, err := d.received(ctx, at.Next-1)
	switch {
	case err != nil:
		return resumption{}, err
	case read && !received.Equal(at.Received):
		return resumption{}, d.aheadInTransactions(a, fmt.Sprintf("its record %d differs", at.Next-1))
	}
	return resumption{account: a, goOn: at, follows: true, unread: !read}, nil
}

// withReceived completes the position of a resumption that the destination has not told.
func (d *delivery) withReceived(ctx context.Context, own resumption) (resumption, error) {
	if own.goOn.Next == 1 {
		return own, nil
	}
	received, read, err := d.received(ctx, own.goOn.Next-1)
	if read {
		own.goOn.Received = received
	}
	return own, err
}

// ahead is the failure of a sink whose destination is ahead of the queue, with what to do.
// Nothing is sent: an operator has to say what these records are.
func ahead(why, advice string, args ...any) error {
	return &sinks.Failure{Kind: sinks.Misconfigured, Reason: sinks.PositionAhead, Err: fmt.Errorf(
		"the destination is ahead of this queue: %s. The queue is an older copy, or a different queue. %s", why, fmt.Sprintf(advice, args...))}
}

// aheadInTransactions is ahead where a replay sets the position at the destination.
func (d *delivery) aheadInTransactions(a queue.Account, why string) error {
	return ahead(why, "Check that no other docket uses the destination. Then, to continue from the queue's position: docket replay --sink %s --from %d", d.cfg.Name, a.Next)
}

// transactions count those of a sink since the start. They implement sinks.Observer.
type transactions struct {
	committed, aborted, fenced atomic.Uint64
	position                   atomic.Uint64 // at the destination; 0: not known
}

// Committed implements sinks.Observer.
func (t *transactions) Committed(next uint64) {
	t.committed.Add(1)
	t.position.Store(next)
}

// Aborted implements sinks.Observer.
func (t *transactions) Aborted() { t.aborted.Add(1) }

// Fenced implements sinks.Observer.
func (t *transactions) Fenced() { t.fenced.Add(1) }

// transactionStatus is nil for a sink that has none.
func (d *delivery) transactionStatus() *TransactionStatus {
	if !d.transacts {
		return nil
	}
	t := d.metrics.transactions
	return &TransactionStatus{
		Committed: t.committed.Load(), Aborted: t.aborted.Load(), Fenced: t.fenced.Load(), Position: t.position.Load(),
	}
}

var _ sinks.Observer = (*transactions)(nil)
