package deadletter

import (
	"cmp"
	"slices"
)

// entry is where a letter stands in the log. There may be a million of them, so
// it has nothing that can be read from there.
type entry struct {
	seq       uint64
	at        int64 // offset of its line
	size      int32 // of its line, with the newline
	redriving bool
}

// index knows the letters of a log. The zero index has none.
type index struct {
	entries   []entry // in the order of seq
	redriving int     // of them
	bytes     int64   // of their lines
}

// find returns the position of seq, or that where it would stand.
func (x *index) find(seq uint64) (int, bool) {
	return slices.BinarySearchFunc(x.entries, seq, func(e entry, seq uint64) int { return cmp.Compare(e.seq, seq) })
}

// put adds e, in place of the entry that has its seq.
func (x *index) put(e entry) {
	i, found := x.find(e.seq)
	if found {
		x.forget(x.entries[i])
		x.entries[i] = e
	} else {
		x.entries = slices.Insert(x.entries, i, e)
	}
	x.bytes += int64(e.size)
}

// forget takes e out of the sums.
func (x *index) forget(e entry) {
	x.bytes -= int64(e.size)
	if e.redriving {
		x.redriving--
	}
}

// remove removes the letters of seqs, which are in order.
func (x *index) remove(seqs []uint64) {
	x.entries = slices.DeleteFunc(x.entries, func(e entry) bool {
		_, gone := slices.BinarySearch(seqs, e.seq)
		if gone {
			x.forget(e)
		}
		return gone
	})
}

// redrive marks the letters of seqs, or takes the mark away.
func (x *index) redrive(seqs []uint64, wait bool) {
	for _, seq := range seqs {
		if i, found := x.find(seq); found && x.entries[i].redriving != wait {
			x.entries[i].redriving = wait
			if wait {
				x.redriving++
			} else {
				x.redriving--
			}
		}
	}
}

// choose returns which of seqs have a letter that is wanted, in order; nil stands for all letters.
func (x *index) choose(seqs []uint64, wanted func(entry) bool) (chosen []uint64) {
	if seqs == nil {
		for _, e := range x.entries {
			if wanted(e) {
				chosen = append(chosen, e.seq)
			}
		}
		return chosen
	}
	for _, seq := range slices.Compact(slices.Sorted(slices.Values(seqs))) {
		if i, found := x.find(seq); found && wanted(x.entries[i]) {
			chosen = append(chosen, seq)
		}
	}
	return chosen
}
