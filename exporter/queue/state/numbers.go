package state

import "slices"

// maxGaps bounds the gaps that are remembered of one producer: they are kept in memory
// and in the file "positions", for every producer.
const maxGaps = 16

// Gap is the numbers from From to To, both included, whose lines were never received.
type Gap struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

// Numbers are the lines of a producer that were received, and whose fate is durable:
// all up to Highest but those in Gaps. Gaps are in order and do not touch. They are
// never changed in place, so copies may share them.
type Numbers struct {
	Highest uint64 `json:"highest"`
	Gaps    []Gap  `json:"gaps,omitempty"` // at most maxGaps
}

// Has reports whether the line of that number was received.
func (n Numbers) Has(number uint64) bool {
	return number <= n.Highest && !slices.ContainsFunc(n.Gaps, func(g Gap) bool {
		return g.From <= number && number <= g.To
	})
}

// Acked is the acknowledgement for a producer that continues with the line next: the
// highest number below the first gap at or after next. Sending from Acked+1 on fills
// that gap.
func (n Numbers) Acked(next uint64) uint64 {
	for _, g := range n.Gaps {
		if g.To >= next {
			return g.From - 1
		}
	}
	return n.Highest
}

// Jump returns the numbers that a producer leaves out if it continues with the line
// next; ok is false when it leaves out none.
func (n Numbers) Jump(next uint64) (g Gap, ok bool) {
	return Gap{From: n.Highest + 1, To: next - 1}, next > n.Highest+1
}

// Fits reports whether maxGaps are enough if a producer continues with the line
// next. Lines that follow in order need no more gaps.
func (n Numbers) Fits(next uint64) bool {
	return len(n.gapsAfter(next, next)) <= maxGaps
}

// receive adds the lines from to to, both included.
func (n *Numbers) receive(from, to uint64) {
	if from == n.Highest+1 { // nearly always, and without making anything
		n.Highest = to
		return
	}
	n.Gaps = fewer(n.gapsAfter(from, to))
	n.Highest = max(n.Highest, to)
}

// gapsAfter are the gaps that are left once the lines from to to were received.
func (n Numbers) gapsAfter(from, to uint64) []Gap {
	var gaps []Gap
	for _, g := range n.Gaps {
		if to < g.From || g.To < from {
			gaps = append(gaps, g)
			continue
		}
		if g.From < from {
			gaps = append(gaps, Gap{g.From, from - 1})
		}
		if to < g.To {
			gaps = append(gaps, Gap{to + 1, g.To})
		}
	}
	if left, ok := n.Jump(from); ok {
		gaps = append(gaps, left)
	}
	return gaps
}

// fewer makes one gap of the two that are nearest to each other, until maxGaps are
// left. No producer gets there, as Fits is asked first, but damage can: it takes frames
// away. What lies between the two was received and would be stored a second time; to
// take what was not received for known would lose it.
func fewer(gaps []Gap) []Gap {
	for len(gaps) > maxGaps {
		nearest := 1
		for i := 2; i < len(gaps); i++ {
			if gaps[i].From-gaps[i-1].To < gaps[nearest].From-gaps[nearest-1].To {
				nearest = i
			}
		}
		gaps[nearest-1].To = gaps[nearest].To
		gaps = slices.Delete(gaps, nearest, nearest+1)
	}
	return gaps
}
