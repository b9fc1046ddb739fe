package sinks

import (
	"context"
	"errors"
	"fmt"

	"github.com/docket-export/docket/internal/lineage"
)

// Resuming is a Sink whose destination tells how far it is with the records of a queue, and drops
// what it has already.
//
// Resume must have succeeded before the first Send, and does not overlap with one. It learns how
// far the destination is with the records of the queue, and asks decide where to go on. It makes
// one attempt, may be called again after an error, and must return promptly once ctx is done.
// When decide fails, Resume fails with an error that wraps the error of decide. Nothing has changed
// at the destination.
//
// Send skips items that the destination has, as accepted. A destination may have records that the
// queue does not have: the queue was set back, or is one of several copies. Then other records come
// with the same seqs. The lineages of both tell which records are the same.
//
// Where the Config is Transacting, the destination keeps the records of a Send and the position
// after them in one step: either both are there or neither is. What it has is known after
// any crash, and no record is there twice. Resume makes the answer of decide the position at the
// destination, and fences every earlier writer for the same queue and name. Send skips items with a
// seq before the position, unless they are Redriven. Those
// are sent with no change of the position. After nil the position is after the last item that
// is not Redriven. After a failure the destination may have the beginning of the batch, with
// the position after it. Unless the failure is Rejected, it may have the rest, too. The next
// Send finds out. Once another docket has taken over, Send fails with Reason Fenced forever and
// writes nothing: only a new sink takes the identity back.
type Resuming interface {
	Sink
	Resume(ctx context.Context, queue Queue, decide Decide) error
}

// Trying is a Resuming sink that can ask the destination for its verdict alone. Try does what Send
// does, with one item, and undoes it: nil says that the destination would accept the item.
//
// Without it, docket sets aside what the destination refuses, and does not see that it refuses everything.
type Trying interface {
	Resuming
	Try(ctx context.Context, b Batch) error
}

// Queue is what a Resuming sink is told of the queue.
type Queue struct {
	ID string // UUID, the same at each start and in each copy
	// Lineage says which incarnation of the queue stored which records. Batch.Queue is one of them.
	Lineage Lineage
}

// Lineage are the incarnations of a queue: each start is one, and has an id of its own.
type Lineage = lineage.Lineage

// KeptIncarnations is how many incarnations a destination remembers of a queue.
const KeptIncarnations = 32

// Decide is given the position at the destination; found is false when there is none. It answers
// where to go on, or fails. It may be called more than once, has no effects, and the last answer
// counts.
type Decide = func(at Position, found bool) (Position, error)

// Position is how far a destination is with the records of a queue.
type Position struct {
	// Next is the seq of the first record that the destination does not have.
	Next uint64
	// Lineage are the newest incarnations that stored the records before Next, KeptIncarnations at most.
	Lineage Lineage
	// Replayed says to which replay of the sink the position belongs: when the replay was
	// requested, in Unix nanoseconds. 0: not known.
	Replayed int64
	// Lost says that the destination no longer knows of all its records, and notes itself what does not
	// come again.
	Lost bool
}

// Transacting is a Config that knows whether its sink writes in transactions, which makes it
// Resuming. Other sinks do not. A sink in transactions takes one batch at a time.
type Transacting interface {
	Transacts() bool
}

// Observer is told the outcome of the transactions of a sink. Calls may overlap, and do
// not block.
type Observer interface {
	// Committed is called for each transaction that is committed, once that is known; next is
	// the position at the destination after it.
	Committed(next uint64)
	// Aborted is called for each transaction that was begun and is given up, also if the
	// destination must end it later.
	Aborted()
	// Fenced is called when the sink learns that another docket has taken over.
	Fenced()
}

// Gatherer is a Config whose sink has a fixed cost for every batch, and gains from larger
// ones.
type Gatherer interface {
	// Gather returns the limits of one Send for records that already wait. No limit may
	// be below the configured one. Records that come one by one are sent at the
	// configured limits.
	Gather(configured BatchLimits) BatchLimits
}

// Reasons for the state Error of a sink, beside the reasons of a Kind.
const (
	// Fenced: another docket with the same queue and sink has begun later.
	Fenced = "Fenced"
	// PositionAhead: the destination of a Resuming sink has records that the queue does not know, and
	// what it has of those that wait in the queue cannot be told.
	PositionAhead = "PositionAhead"
	// PositionBehind: the destination of a Resuming sink lacks records that it has accepted, so the
	// destination is an older copy.
	PositionBehind = "PositionBehind"
)

// Overtaken is the failure Fenced of a sink; what says which docket has taken over what.
func Overtaken(what string) error {
	return &Failure{Kind: Misconfigured, Reason: Fenced, Err: errors.New(what + ": two dockets have the same queue and the same sink, and the one that started later writes. " +
		"Stop one of them; to let this docket take over, restart it")}
}

// Behind is the failure of a destination that ends at record through, although it has accepted up to
// record delivered.
func Behind(through, delivered uint64) error {
	return &Failure{Kind: Misconfigured, Reason: PositionBehind, Err: fmt.Errorf(
		"the destination is an older copy: it ends at record %d, and docket has delivered up to record %d. Restore the newest copy, or give the sink a new destination, where it continues with record %d",
		through, delivered, delivered+1)}
}
