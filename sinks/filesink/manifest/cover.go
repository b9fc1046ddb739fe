package manifest

import "fmt"

// From is the first seq that e covers. last is the seq with which the previous
// entry of the queue ends; 0 when e is the first of its queue.
func (e *Entry) From(last uint64) uint64 {
	if last > 0 {
		return last + 1
	}
	for gap := range e.Gaps.All() {
		return min(gap.From, e.FirstSeq)
	}
	return e.FirstSeq
}

// Follow returns an error when e leaves out a seq after last, or covers one
// twice. last is 0 when e is the first of its queue.
func (e *Entry) Follow(last uint64) error {
	from := e.From(last)
	if e.FirstSeq < from {
		return fmt.Errorf("firstSeq %d is not after %d, where the previous entry ends", e.FirstSeq, last)
	}
	next := from
	for gap := range e.Gaps.All() {
		if gap.From >= e.FirstSeq {
			break
		}
		if gap.From < next {
			return fmt.Errorf("gap %d-%d is not after %d, where the previous entry ends", gap.From, gap.To, last)
		}
		if gap.From > next {
			return &MissingError{From: next, To: gap.From - 1}
		}
		next = gap.To + 1
	}
	if next < e.FirstSeq {
		return &MissingError{From: next, To: e.FirstSeq - 1}
	}
	return nil
}

// MissingError is what Follow returns for seqs that are neither records nor in a
// gap.
type MissingError struct{ From, To uint64 }

func (e *MissingError) Error() string {
	return fmt.Sprintf("seqs %d to %d are neither records nor in a gap", e.From, e.To)
}
