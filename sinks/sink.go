// Package sinks is the seam between the exporter and the destinations of its
// records: the Sink interface, the ways a destination can fail, and the list of
// known kinds. Each sink is a package of its own below this one and imports
// nothing of the exporter; sinktest is the suite every one of them passes.
package sinks

import (
	"context"
	"strconv"
	"time"
)

// Sink delivers batches to one destination.
//
// Send makes one attempt and returns nil only when the destination has accepted
// every item. It does not retry, sleep or re-batch: the delivery loop does, and
// offers the same items again, perhaps in a larger batch, until Send succeeds.
// It must not keep b or its bytes after returning, and must return promptly once
// ctx is done. Calls do not overlap.
//
// An error that is not a *Failure counts as Transient.
//
// Close releases what the sink holds. It is called once Send has returned for
// the last time; a second call does nothing and returns nil.
type Sink interface {
	Send(ctx context.Context, b Batch) error
	Close(ctx context.Context) error
}

// Batch is what one Send carries: items of one queue in the order of their seq.
// Seqs rise but need not be contiguous. A sink accepts a batch without items by
// doing nothing, unless its Config is Ordered.
type Batch struct {
	// Queue is the UUID of the incarnation of the queue that stored the items, the first half of
	// every record id. Each start of a queue is another incarnation.
	Queue string
	Items []Item
	// Gaps are the seqs before, between and after Items that this sink does not
	// get, in order and without overlap. Gaps and items together cover every seq
	// from the end of the previous batch to the end of this one. A batch of late
	// items has none.
	Gaps []Gap
}

// Gap is a range of seqs that a sink does not get.
type Gap struct {
	From, To uint64 // the first and the last of them
	Reason   GapReason
}

// GapReason says why a sink does not get a record.
type GapReason string

// The reasons of a gap, named as in the ledger.
const (
	Filtered     GapReason = "Filtered"     // not meant for this sink
	DeadLettered GapReason = "DeadLettered" // set aside after a rejection
	Dropped      GapReason = "Dropped"      // given up by a policy that the operator chose
	Corrupt      GapReason = "Corrupt"      // lost to damage on disk
)

// Item is one record on its way to a destination.
type Item struct {
	Seq      uint64    // number of the record in its queue, from 1
	Source   string    // name of the source that took it in
	Producer string    // empty when the producer sent in plain mode
	Received time.Time // when the exporter read it, UTC
	Late     Late      // set when it is out of order
	Record   []byte    // one JSON object without a newline, byte for byte as it came
}

// Late says why an item is out of order: it may come after items with higher seqs, or before items with
// lower ones. A sink that recognises redeliveries by a falling seq must accept such an item, and must not
// take later items for redeliveries because of it.
type Late string

// Why an item is late.
const (
	OnTime   Late = ""
	Replayed Late = "Replayed" // docket replay has set the sink back
	Redriven Late = "Redriven" // it comes from the dead letters
	Ahead    Late = "Ahead"    // it comes before its turn: others were refused, and docket asks whether any is accepted
)

// ID is the id of item i: the same at every delivery of the record, and never the id of another, so
// that a destination can recognise a redelivery.
func (b Batch) ID(i int) string {
	return b.Queue + "-" + strconv.FormatUint(b.Items[i].Seq, 10)
}

// Size is the number of record bytes in b.
func (b Batch) Size() int {
	n := 0
	for _, it := range b.Items {
		n += len(it.Record)
	}
	return n
}
