package manifest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/docket-export/docket/sinks"
)

// MaxRanges bounds the ranges in the gaps of one file. A sink finishes the file
// before it has more, however small the file is.
const MaxRanges = 1 << 16

// reasons are those that a gap can have.
var reasons = []sinks.GapReason{sinks.Filtered, sinks.DeadLettered, sinks.Dropped, sinks.Corrupt, Unknown}

// Gaps are ranges of seqs that are not records of a file, in order and without
// overlap. The zero value has none. A copy shares memory with the original: call
// Add on only one of them.
type Gaps struct {
	list []sinks.Gap
}

// Add appends the range of seqs that begins with from and ends with to, both
// included. Ranges of one reason that touch become one. It is an error when the
// range overlaps or precedes an earlier one, is empty, or has an unknown reason.
func (g *Gaps) Add(from, to uint64, reason sinks.GapReason) error {
	if from == 0 || to < from {
		return fmt.Errorf("gap %d-%d: not a range of seqs", from, to)
	}
	if !slices.Contains(reasons, reason) {
		return fmt.Errorf("gap %d-%d: no such reason: %q", from, to, reason)
	}
	if n := len(g.list); n > 0 {
		last := &g.list[n-1]
		if from <= last.To {
			return fmt.Errorf("gap %d-%d does not come after gap %d-%d", from, to, last.From, last.To)
		}
		if from == last.To+1 && reason == last.Reason {
			last.To = to
			return nil
		}
	}
	g.list = append(g.list, sinks.Gap{From: from, To: to, Reason: reason})
	return nil
}

// Len is the number of ranges.
func (g Gaps) Len() int { return len(g.list) }

// All yields the ranges in order.
func (g Gaps) All() iter.Seq[sinks.Gap] { return slices.Values(g.list) }

// last is the range with the highest seqs.
func (g Gaps) last() (gap sinks.Gap, ok bool) {
	if len(g.list) == 0 {
		return sinks.Gap{}, false
	}
	return g.list[len(g.list)-1], true
}

// Find returns the range that seq lies in.
func (g Gaps) Find(seq uint64) (gap sinks.Gap, ok bool) {
	i := sort.Search(len(g.list), func(i int) bool { return g.list[i].To >= seq })
	if i == len(g.list) || g.list[i].From > seq {
		return sinks.Gap{}, false
	}
	return g.list[i], true
}

// MarshalJSON implements json.Marshaler: {"Corrupt":"6","Filtered":"3-4,9"}.
func (g Gaps) MarshalJSON() ([]byte, error) {
	texts := map[sinks.GapReason]string{}
	for _, reason := range reasons {
		var b []byte
		for _, gap := range g.list {
			if gap.Reason == reason {
				b = appendRange(b, gap)
			}
		}
		if b != nil {
			texts[reason] = string(b)
		}
	}
	return json.Marshal(texts)
}

func appendRange(b []byte, g sinks.Gap) []byte {
	if len(b) > 0 {
		b = append(b, ',')
	}
	b = strconv.AppendUint(b, g.From, 10)
	if g.To > g.From {
		b = append(b, '-')
		b = strconv.AppendUint(b, g.To, 10)
	}
	return b
}

// UnmarshalJSON implements json.Unmarshaler. It takes ranges in any order within a
// reason, and fails for ranges that overlap.
func (g *Gaps) UnmarshalJSON(text []byte) error {
	var texts map[sinks.GapReason]string
	if err := json.Unmarshal(text, &texts); err != nil {
		return err
	}
	var list []sinks.Gap
	for reason, ranges := range texts {
		for part := range strings.SplitSeq(ranges, ",") {
			if len(list) == MaxRanges {
				return fmt.Errorf("gaps: more than %d ranges", MaxRanges)
			}
			gap, err := parseRange(part)
			if err != nil {
				return fmt.Errorf("gaps: %s: %w", reason, err)
			}
			gap.Reason = reason
			list = append(list, gap)
		}
	}
	slices.SortFunc(list, func(a, b sinks.Gap) int { return cmp.Compare(a.From, b.From) })
	*g = Gaps{}
	for _, gap := range list {
		if err := g.Add(gap.From, gap.To, gap.Reason); err != nil {
			return err
		}
	}
	return nil
}

var errRange = errors.New("not a range of seqs such as 3-4")

func parseRange(text string) (g sinks.Gap, err error) {
	from, to, isRange := strings.Cut(text, "-")
	if g.From, err = strconv.ParseUint(from, 10, 64); err != nil {
		return g, errRange
	}
	g.To = g.From
	if isRange {
		if g.To, err = strconv.ParseUint(to, 10, 64); err != nil {
			return g, errRange
		}
	}
	if g.From == 0 || g.To < g.From || g.To == math.MaxUint64 {
		return g, errRange
	}
	return g, nil
}
