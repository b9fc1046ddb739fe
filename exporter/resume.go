package exporter

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/sinks"
)

// A queue may be an older copy of one that has gone on, and so may a destination. A sink that
// knows its position tells, by its lineage and that of the queue, up to which record both have the
// same: see decide. What the destination has beyond stays there, and the queue's records that have
// the same seqs are others, which are sent.
//
// A sink in transactions keeps its position at the destination, together with the records.
// The account in the queue follows a little later, so a crash may leave it behind. Records that the
// destination has although the account does not say so are counted and not sent: those with a dead
// letter as set aside, for the letter is older than the transaction, those that the filter leaves
// out as filtered, and the others as delivered, rejected ones that were dropped among them.

// transacts reports whether the sink writes in transactions.
func (s *SinkConfig) transacts() bool {
	c, ok := s.Config.(sinks.Transacting)
	return ok && c.Transacts()
}

// errFenced is why a sink that has been fenced does not begin anew when its configuration changes, or
// with a replay: it would fence the docket that has taken over.
var errFenced = sinks.Overtaken("another docket has taken over this sink")

// resume has the sink go on where its destination is. It is called with every attempt to
// open the sink until it has succeeded.
func (d *delivery) resume(ctx context.Context) error {
	sink, ok := d.sink.(sinks.Resuming)
	if !ok {
		return nil
	}
	if d.fenced {
		return errFenced
	}
	if d.transacts {
		// The account says that this sink is not the one that had its name before. Were it lost in
		// a crash behind a transaction, the next start would send the same records once more.
		soon, cancel := context.WithTimeout(ctx, accountTimeout)
		defer cancel()
		if err := d.cursor.Save(soon); err != nil {
			return fmt.Errorf("the sink's position in the queue cannot be made durable: %w", err)
		}
	}
	var decided resumption
	var refused error
	err := sink.Resume(ctx, d.queue, func(at sinks.Position, found bool) (sinks.Position, error) {
		if found {
			d.metrics.transactions.position.Store(at.Next)
		}
		decided, refused = d.decide(at, found)
		return decided.goOn, refused
	})
	switch {
	case err != nil && refused != nil:
		return refused
	case err != nil:
		return err
	}
	d.tellResumption(decided)
	if !d.transacts {
		d.told.Store(decided.through)
		return nil
	}
	d.metrics.transactions.position.Store(decided.goOn.Next)
	if decided.goOn.Replayed != decided.account.Replayed {
		d.cursor.SetReplayed(decided.goOn.Replayed)
	}
	if decided.goOn.Next > decided.account.Next {
		d.has.Store(decided.goOn.Next)
	}
	return nil
}

// tellResumption logs where the sink goes on, when that is news.
func (d *delivery) tellResumption(r resumption) {
	if r.ahead > 0 {
		d.log.Warn("the destination has records that this queue does not: the queue was set back, or a copy of it has gone on. They stay there, and docket sends what this queue has stored since",
			"common", r.through, "destination", r.ahead, "nextSeq", r.goOn.Next)
	}
	if !d.transacts {
		return
	}
	if next := r.account.Next; r.goOn.Next > next {
		d.log.Info("the destination already has records that are pending in the queue: docket counts them as delivered and does not send them",
			"firstSeq", next, "lastSeq", r.goOn.Next-1)
	}
	if r.absent && r.goOn.Next > 1 {
		d.log.Info("the destination has no position for this sink: the sink continues at the queue's position", "nextSeq", r.goOn.Next)
	}
}

// resumption is where a sink goes on.
type resumption struct {
	account queue.Account // it is based on
	goOn    sinks.Position
	absent  bool   // the destination has no position
	through uint64 // the destination has the queue's records up to this one; 0: none, or nobody knows
	ahead   uint64 // and others up to this one; 0: none
}

// decide says where the sink goes on whose destination is at a position. The account wins
// where it is of a later replay, or further. Otherwise the destination does, as far as what it has
// is of this queue.
func (d *delivery) decide(at sinks.Position, found bool) (resumption, error) {
	a, own := d.cursor.Account(), d.queue.Lineage
	r := resumption{account: a, goOn: sinks.Position{Next: a.Next, Replayed: a.Replayed, Lineage: own}, absent: !found}
	if !found || d.transacts && at.Replayed < a.Replayed {
		return r, nil
	}
	through, known := own.Through(at.Lineage, at.Next)
	switch {
	case !known && own.At(a.Next) != own.At(math.MaxUint64):
		return r, ahead(d.cfg.Name, at.Next-1, a.Next)
	case d.transacts:
		r.goOn.Next = max(a.Next, through+1)
	case through > 0 && at.Next < a.Next && !at.Lost && hasDelivered(a) && a.Next-1-through > a.Dropped+a.Corrupt:
		// It lacks records that were delivered: they were durable there before the account said so.
		return r, sinks.Behind(through, a.Next-1)
	}
	r.goOn.Replayed, r.through = at.Replayed, through
	if at.Next-1 > through {
		r.ahead = at.Next - 1
	}
	return r, nil
}

// ahead is the failure of a sink whose destination is ahead of the queue, where records that wait in
// the queue may be there or not. Nothing is sent: an operator has to say which.
func ahead(sink string, last, next uint64) error {
	return &sinks.Failure{Kind: sinks.Misconfigured, Reason: sinks.PositionAhead, Err: fmt.Errorf(
		"the destination has records up to %d of another copy of this queue, which has gone on for too long to tell what the two have in common. "+
			"Check that no other docket uses the destination. Then continue from the queue's position: docket replay --sink %s --from %d. Records that the destination has already are then there twice",
		last, sink, next)}
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
