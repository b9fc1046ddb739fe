package manifest

import "fmt"

// From is the first seq that e covers, when the entry before it of the same queue
// ends with last; 0 when e is the first of its queue.
func (e *Entry) From(last uint64) uint64 {
	if last > 0 {
		return last + 1
	}
	for gap := range e.Gaps.All() {
		return min(gap.From, e.FirstSeq)
	}
	return e.FirstSeq
}

// Follow reports whether e leaves no seq out behind last, and covers none twice.
// last is 0 when e is the first of its queue.
func (e *Entry) Follow(last uint64) error {
	from := e.From(last)
	if e.FirstSeq < from {
		return fmt.Errorf("firstSeq %d is not behind %d, where the entry before ends", e.FirstSeq, last)
	}
	next := from
	for gap := range e.Gaps.All() {
		if gap.From >= e.FirstSeq {
			break
		}
		if gap.From < next {
			return fmt.Errorf("gap %d-%d is not behind %d, where the entry before ends", gap.From, gap.To, last)
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

// MissingError is what Follow returns for seqs that nothing is said of: they are
// neither records nor in a gap.
type MissingError struct{ From, To uint64 }

func (e *MissingError) Error() string {
	return fmt.Sprintf("seqs %d to %d are neither records nor in a gap", e.From, e.To)
}
