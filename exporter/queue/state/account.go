// Package state is what the log of a queue adds up to: the accounts of sinks in the file
// cursors, and the sums and the positions of producers in the file positions.
package state

import (
	"errors"
	"time"
)

// Account is one sink's place in the queue and what became of the records before
// it. At every moment
//
//	Next-1 = Delivered + Filtered + DeadLettered + Dropped + Corrupt
type Account struct {
	Next         uint64 // seq of the first record that is not done
	Delivered    uint64
	Filtered     uint64 // not meant for this sink
	DeadLettered uint64 // set aside, and not delivered since
	Dropped      uint64 // given up, by a policy or an operator
	Corrupt      uint64 // lost to damage on disk
	// ForRoom counts those of Dropped that a full queue gave up.
	ForRoom uint64
	// ReplayTo is the seq at which a replay ends: the records from Next to it
	// have been done before. At most Next when none is under way.
	ReplayTo uint64
	// Replayed is when the last replay was requested, in Unix nanoseconds; before the
	// first replay, when the sink was new to the queue. A destination that keeps the
	// sink's position is behind the account when its value is smaller. 0: not known.
	Replayed int64
}

// Pending is how many records of a queue whose newest is lastSeq the sink has yet
// to deliver.
func (a Account) Pending(lastSeq uint64) uint64 { return lastSeq + 1 - a.Next }

// Outcome says how many of the records that are done were not delivered, and why.
type Outcome struct {
	Filtered     uint64
	DeadLettered uint64
	Dropped      uint64
}

// Done counts n records with this outcome. If the queue has dropped some of them
// meanwhile, n is less than the sum that o was made from. Then records that were
// set aside count first, because they exist.
func (a *Account) Done(n uint64, o Outcome) {
	if gone := min(a.Dropped, o.DeadLettered-min(n, o.DeadLettered)); gone > 0 {
		a.Dropped -= gone // they were set aside before the queue dropped them
		a.ForRoom -= min(a.ForRoom, gone)
		a.DeadLettered += gone
		o.DeadLettered -= gone
	}
	for _, part := range []struct {
		count *uint64
		n     uint64
	}{{&a.DeadLettered, o.DeadLettered}, {&a.Dropped, o.Dropped}, {&a.Filtered, o.Filtered}} {
		taken := min(n, part.n)
		*part.count += taken
		n -= taken
	}
	a.Delivered += n
}

// DropForRoom counts n records that a full queue gives up.
func (a *Account) DropForRoom(n uint64) {
	a.Dropped += n
	a.ForRoom += n
}

// fields lists the counts of a in the order of the file. Replayed follows them. redriving is what
// earlier versions counted apart from DeadLettered.
func (a *Account) fields(redriving *uint64) []*uint64 {
	return []*uint64{&a.Next, &a.Delivered, &a.Filtered, &a.DeadLettered, &a.Dropped, &a.Corrupt, redriving, &a.ForRoom, &a.ReplayTo}
}

// ReplayedNow returns a with a replay requested now. The clock may have been set back since
// the last replay.
func (a Account) ReplayedNow(now time.Time) Account {
	a.Replayed = max(now.UnixNano(), a.Replayed+1)
	return a
}

// SetBack returns a with from as its next record. known says how many of the
// records between are lost or dead-lettered. For the others it is not
// known which were delivered: they are taken from Delivered first.
func (a Account) SetBack(from uint64, known Account) (Account, error) {
	rest := a.Next - from
	a.ReplayTo = max(a.ReplayTo, a.Next)
	a.Next = from
	take := func(from *uint64, n uint64) {
		n = min(n, *from, rest)
		*from -= n
		rest -= n
	}
	take(&a.Corrupt, known.Corrupt)
	take(&a.DeadLettered, known.DeadLettered)
	for _, count := range []*uint64{&a.Delivered, &a.Filtered, &a.Dropped, &a.DeadLettered, &a.Corrupt} {
		take(count, rest)
	}
	a.ForRoom = min(a.ForRoom, a.Dropped)
	if rest > 0 {
		return Account{}, errors.New("its account does not add up: it counts fewer records than lie before its position")
	}
	return a, nil
}
