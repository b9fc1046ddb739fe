// Package lineage tells which ids the records of a queue have over its starts.
//
// A queue numbers its records without gaps, and each start of it is an incarnation with a
// random id. A record is known by the id of the incarnation that stored it and by its seq.
// So two copies of a queue, or one that was set back to an older state, give no id twice:
// what they store from there on has ids of other incarnations. Their lineages say up to
// which record they are the same queue.
package lineage

import (
	"cmp"
	"math"
	"slices"
)

// Incarnation is one start of a queue.
type Incarnation struct {
	ID    string `json:"id"`       // UUID, the first half of the ids of its records
	First uint64 `json:"firstSeq"` // of its records
}

// Lineage are the incarnations that stored the records of a queue, in order. Each goes up to
// the first record of the next one. Incarnations that stored nothing are left out. A Lineage is
// not changed once it is made.
type Lineage []Incarnation

// Join returns the incarnations of both, each from its first record on. Of those that begin with
// one record, the last has stored it.
func Join(a, b Lineage) Lineage {
	var all Lineage
	for _, i := range slices.Concat(a, b) {
		if at := slices.IndexFunc(all, func(other Incarnation) bool { return other.ID == i.ID }); at < 0 {
			all = append(all, i)
		} else {
			all[at].First = min(all[at].First, i.First)
		}
	}
	slices.SortStableFunc(all, func(a, b Incarnation) int { return cmp.Compare(a.First, b.First) })
	var joined Lineage
	for n, i := range all {
		if n+1 == len(all) || i.First < all[n+1].First {
			joined = append(joined, i)
		}
	}
	return joined
}

// Has reports whether id is one of l.
func (l Lineage) Has(id string) bool {
	return slices.ContainsFunc(l, func(i Incarnation) bool { return i.ID == id })
}

// Begin returns l with a new incarnation whose first record is first.
func (l Lineage) Begin(id string, first uint64) Lineage {
	return append(slices.Clip(l.Before(first)), Incarnation{id, first})
}

// Before returns the incarnations with records below next.
func (l Lineage) Before(next uint64) Lineage { return l[:l.count(max(next, 1)-1)] }

// count is how many incarnations begin with seq or earlier. Most callers ask for the end.
func (l Lineage) count(seq uint64) int {
	n := len(l)
	for n > 0 && l[n-1].First > seq {
		n--
	}
	return n
}

// Newest returns the last n incarnations.
func (l Lineage) Newest(n int) Lineage { return l[max(0, len(l)-n):] }

// From returns the incarnations with records from seq on.
func (l Lineage) From(seq uint64) Lineage { return l[max(0, l.count(seq)-1):] }

// At returns the id of the incarnation that has seq, and that of the first one for a record
// before it. It is empty for an empty lineage.
func (l Lineage) At(seq uint64) string {
	if len(l) == 0 {
		return ""
	}
	return l[max(0, l.count(seq)-1)].ID
}

// Through returns how far another queue, or what has its records, is the same as the queue
// of l. Other has the records below next. Those up to through are the same as here; the others
// are not here. known is false where the two have nothing in common as far as both tell.
func (l Lineage) Through(other Lineage, next uint64) (through uint64, known bool) {
	if next <= 1 {
		return 0, true // it has nothing
	}
	through = next - 1
	for _, i := range slices.Backward(other.Before(next)) {
		at := slices.IndexFunc(l, func(own Incarnation) bool { return own.ID == i.ID })
		if at >= 0 {
			return min(through, l.end(at)-1), true
		}
		through = i.First - 1
	}
	return 0, false
}

// end is the seq with which the incarnation behind that at index i begins.
func (l Lineage) end(i int) uint64 {
	if i+1 < len(l) {
		return l[i+1].First
	}
	return math.MaxUint64
}
