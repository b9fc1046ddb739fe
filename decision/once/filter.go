package once

import (
	"math"
	"slices"
)

// DefaultMaxQueues is MaxQueues unless it is set. A queue costs about 150 bytes
// of memory and 65 of saved state.
const DefaultMaxQueues = 1000

// Filter tells first deliveries from redeliveries in one partition of one topic.
// The zero Filter is ready and has seen nothing. Its methods must not be called
// at the same time.
//
// A Filter takes every record that it does not remember: forgetting lets a
// redelivery through and never loses a record.
type Filter struct {
	// LateMemory is how many late records of each queue are remembered, in
	// order to drop a second copy of them. Each costs a step of a linear search
	// for each late record. 0 takes every late record.
	LateMemory int
	// MaxQueues bounds the queues that are remembered, 0 meaning DefaultMaxQueues; the
	// queue that was silent for longest is forgotten. Every start of a docket that stores
	// a record is a queue of its own.
	MaxQueues int

	queues map[string]*seen
	now    uint64 // rises with each delivery, to order the queues by last use
}

// seen is what is remembered of one queue.
type seen struct {
	highest uint64   // of the seqs that came in order; 0: none
	late    []uint64 // the last seqs that came late, the newest last
	used    uint64   // when the queue was heard of last, on the clock now
}

// Take reports whether d is to be handled, and remembers that it was: it returns false
// for a redelivery. The zero Delivery belongs to a message that is not docket's: it is
// always taken and never remembered.
func (f *Filter) Take(d Delivery) bool {
	if d.Queue == "" || d.Seq == 0 {
		return true
	}
	q := f.queue(d.Queue)
	if d.Late != "" {
		return q.takeLate(d.Seq, f.LateMemory)
	}
	if d.Seq <= q.highest {
		return false
	}
	q.highest = d.Seq
	return true
}

// queue returns what is remembered of a queue, which is now the one heard of
// last.
func (f *Filter) queue(id string) *seen {
	q := f.queues[id]
	if q == nil {
		f.makeRoom()
		q = new(seen)
		f.queues[id] = q
	}
	f.now++
	q.used = f.now
	return q
}

// makeRoom leaves room for one more queue.
func (f *Filter) makeRoom() {
	if f.queues == nil {
		f.queues = make(map[string]*seen)
	}
	limit := f.MaxQueues
	if limit <= 0 {
		limit = DefaultMaxQueues
	}
	for len(f.queues) >= limit {
		delete(f.queues, f.oldest())
	}
}

// oldest returns the queue that has not been heard of for the longest time.
func (f *Filter) oldest() string {
	oldest, used := "", uint64(math.MaxUint64)
	for id, q := range f.queues {
		if q.used < used {
			oldest, used = id, q.used
		}
	}
	return oldest
}

// takeLate never touches highest: seqs below that of a late record may be on
// their way for the first time.
func (q *seen) takeLate(seq uint64, memory int) bool {
	if memory <= 0 {
		q.late = nil
		return true
	}
	if slices.Contains(q.late, seq) {
		return false
	}
	q.late = append(q.late, seq)
	if over := len(q.late) - memory; over > 0 {
		q.late = slices.Delete(q.late, 0, over)
	}
	return true
}
