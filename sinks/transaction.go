package sinks

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Transactional is a Sink whose destination keeps the records of a Send and the position
// after them in one step: either both are there or neither is. What it has is known after
// any crash, and no record is there twice.
//
// Resume must have succeeded before the first Send, and does not overlap with one. It learns how
// far the destination is with the records of the queue, and asks decide where to go on. It makes
// the answer the position at the destination, and fences every earlier writer for the same queue
// and name. It makes one attempt, may be called again after an error, and must return promptly once
// ctx is done.
//
// When decide fails, Resume fails with an error that wraps the error of decide. Nothing has changed
// at the destination, and another docket that writes there goes on.
//
// Send skips items with a seq before the position, as accepted, unless they are Redriven. Those
// are sent with no change of the position. After nil the position is after the last item that
// is not Redriven. After a failure the destination may have the beginning of the batch, with
// the position after it. Unless the failure is Rejected, it may have the rest, too. The next
// Send finds out.
//
// Once another docket has taken over, Send fails with Reason Fenced forever and writes nothing:
// only a new sink takes the identity back.
type Transactional interface {
	Sink
	Resume(ctx context.Context, queue string, decide Decide) error
}

// Decide is given the position at the destination; found is false when there is none. It answers
// where to go on, or fails. It may be called more than once, has no effects, and the last answer
// counts.
type Decide = func(at Position, found bool) (Position, error)

// Recognizing is a Sink whose destination tells records apart by queue and seq. Send drops a
// record with a seq that is there already, as a redelivery, and reports it as accepted: another
// record with that seq would be lost.
//
// Newest returns what the destination has of a queue. It is called before the first Send, and does not
// overlap with one.
type Recognizing interface {
	Sink
	Newest(queue string) (Newest, error)
}

// Newest is what a destination has last of a queue. The zero Newest: nothing.
type Newest struct {
	Through  uint64    // the greatest seq that it has as a record, or knows as a gap
	Record   uint64    // the greatest seq of a record; 0: not known
	Received time.Time // when docket received that record, exact to the nanosecond
	Lost     bool      // it may have had more, and notes itself what does not come again
}

// Position is how far a destination is with the records of a queue.
type Position struct {
	// Next is the seq of the first record that the destination does not have.
	Next uint64
	// Replayed says to which replay of the sink the position belongs: when the replay was
	// requested, in Unix nanoseconds. 0: not known.
	Replayed int64
	// Received is when docket received the record before Next, exact to the nanosecond. The zero
	// Time: not known.
	Received time.Time
}

// Transacting is a Config that knows whether its sink is Transactional. Other sinks are
// not. A Transactional sink takes one batch at a time.
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
	// PositionAhead: the destination of a Transactional or Recognizing sink has records that the
	// queue does not know, so the queue is an older copy or another one.
	PositionAhead = "PositionAhead"
	// PositionBehind: the destination of a Recognizing sink lacks records that it has accepted, so the
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
