package filesink

import (
	"fmt"

	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// portion is what of a batch was not accepted before: items, and gaps before,
// between and behind them. Together they leave out nothing.
type portion struct {
	items []sinks.Item
	gaps  []sinks.Gap
}

func (p portion) empty() bool { return len(p.items) == 0 && len(p.gaps) == 0 }

// last is the last seq in p, which is not empty.
func (p portion) last() (seq uint64) {
	if n := len(p.items); n > 0 {
		seq = p.items[n-1].Seq
	}
	if n := len(p.gaps); n > 0 {
		seq = max(seq, p.gaps[n-1].To)
	}
	return seq
}

// unseen returns what of b was not accepted before, b being of the queue that the
// position is about. Seqs that are neither items nor gaps, and those that nobody
// knows of any more, are gaps of reason Unknown.
func (s *store) unseen(b sinks.Batch) (portion, error) {
	p := s.position
	items, gaps := b.Items, b.Gaps
	for len(items) > 0 && items[0].Seq <= p.last {
		items = items[1:]
	}
	for len(gaps) > 0 && gaps[0].To <= p.last {
		gaps = gaps[1:]
	}
	if len(items) == 0 && len(gaps) == 0 {
		return portion{}, nil
	}
	w := walk{next: p.last + 1}
	if p.last == 0 && !p.lost {
		// Seqs before the first batch are from before the export began.
		w.next = firstSeq(items, gaps)
	}
	all, err := w.complete(items, gaps, p.last)
	return portion{items: items, gaps: all}, err
}

// firstSeq is the first of items and gaps, which are not both empty.
func firstSeq(items []sinks.Item, gaps []sinks.Gap) uint64 {
	switch {
	case len(items) == 0:
		return gaps[0].From
	case len(gaps) == 0:
		return items[0].Seq
	}
	return min(items[0].Seq, gaps[0].From)
}

// walk goes through the seqs of a batch.
type walk struct {
	next uint64 // the seq that must come
	gaps []sinks.Gap
}

// complete returns gaps with what neither they nor items account for. The part of
// the first gap up to accepted is left out. Nothing that comes twice or out of
// order is taken: the manifest could not tell of it.
func (w *walk) complete(items []sinks.Item, gaps []sinks.Gap, accepted uint64) ([]sinks.Gap, error) {
	for len(items) > 0 || len(gaps) > 0 {
		if len(gaps) == 0 || len(items) > 0 && items[0].Seq < gaps[0].From {
			if err := w.advance(items[0].Seq, items[0].Seq); err != nil {
				return nil, err
			}
			items = items[1:]
			continue
		}
		g := gaps[0]
		g.From = max(g.From, accepted+1)
		if err := w.advance(g.From, g.To); err != nil {
			return nil, err
		}
		w.gaps, gaps = append(w.gaps, g), gaps[1:]
	}
	return w.gaps, nil
}

// advance goes on behind to, and notes what lies before from.
func (w *walk) advance(from, to uint64) error {
	if from < w.next || to < from {
		return fmt.Errorf("batch has seqs %d to %d where %d or later comes next", from, to, w.next)
	}
	if from > w.next {
		w.gaps = append(w.gaps, sinks.Gap{From: w.next, To: from - 1, Reason: manifest.Unknown})
	}
	w.next = to + 1
	return nil
}

// maxGaps is how many gaps are taken at once. A file that has no room for them is
// finished first, so that none has more than the manifest can tell.
const maxGaps = manifest.MaxRanges / 2

// split cuts p in two, the first of which can go into one file.
func (p portion) split() (first, rest portion) {
	if len(p.gaps) > maxGaps {
		return p.before(p.gaps[maxGaps].From)
	}
	return p, portion{}
}

// before cuts p at seq, which is that of an item or the first one of a gap.
func (p portion) before(seq uint64) (first, rest portion) {
	i, j := 0, 0
	for i < len(p.items) && p.items[i].Seq < seq {
		i++
	}
	for j < len(p.gaps) && p.gaps[j].From < seq {
		j++
	}
	return portion{p.items[:i], p.gaps[:j]}, portion{p.items[i:], p.gaps[j:]}
}
