package deadletter

import (
	"slices"
	"strconv"
	"strings"
)

// span is a range of seqs; both ends belong to it.
type span struct{ first, last uint64 }

func formatSpans(spans []span) string {
	var b strings.Builder
	for i, s := range spans {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.FormatUint(s.first, 10))
		if s.last > s.first {
			b.WriteByte('-')
			b.WriteString(strconv.FormatUint(s.last, 10))
		}
	}
	return b.String()
}

func parseSpans(text []byte) (spans []span, ok bool) {
	for one := range strings.SplitSeq(string(text), ",") {
		from, to, isRange := strings.Cut(one, "-")
		first, err := strconv.ParseUint(from, 10, 64)
		if err != nil {
			return nil, false
		}
		last := first
		if isRange {
			if last, err = strconv.ParseUint(to, 10, 64); err != nil || last < first {
				return nil, false
			}
		}
		spans = append(spans, span{first, last})
	}
	return spans, true
}

// entry is where a letter stands in the log. There may be a million of them, so
// it has nothing that can be read from there.
type entry struct {
	seq       uint64
	at        int64  // offset of its line
	head      uint16 // bytes of the line before about
	redriving bool
	damaged   bool   // found so when it was read; it waits for nothing any more
	about     uint32 // bytes
	record    uint32 // bytes
}

// start is how many bytes of the line are needed to read all but the record.
func (e entry) start() int { return int(e.head) + int(e.about) }

// size is that of the line: a space stands before the record, a newline behind.
func (e entry) size() int64 { return int64(e.start()) + 1 + int64(e.record) + 1 }

// index knows the letters of a log. The zero index has none.
type index struct {
	entries   []entry // in the order of seq
	redriving int     // of them
	bytes     int64   // of their lines
}

// find returns the position of seq, or that where it would stand.
func (x *index) find(seq uint64) (int, bool) {
	return slices.BinarySearchFunc(x.entries, seq, func(e entry, seq uint64) int {
		switch {
		case e.seq < seq:
			return -1
		case e.seq > seq:
			return 1
		}
		return 0
	})
}

// between returns the positions of the letters in s, [i, j).
func (x *index) between(s span) (i, j int) {
	i, _ = x.find(s.first)
	j, found := x.find(s.last)
	if found {
		j++
	}
	return i, j
}

// redrivingIn counts the redriving letters at positions [i, j). Most ranges are a few
// letters, or all but a few: it looks at the fewer, because the queue waits.
func (x *index) redrivingIn(i, j int) (n uint64) {
	count := func(entries []entry) (n int) {
		for k := range entries {
			if entries[k].redriving {
				n++
			}
		}
		return n
	}
	if j-i <= len(x.entries)/2 {
		return uint64(count(x.entries[i:j]))
	}
	return uint64(x.redriving - count(x.entries[:i]) - count(x.entries[j:]))
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
	x.bytes += e.size()
	if e.redriving {
		x.redriving++
	}
}

// forget takes e out of the sums.
func (x *index) forget(e entry) {
	x.bytes -= e.size()
	if e.redriving {
		x.redriving--
	}
}

// remove removes the letters in spans, which are in order and apart.
func (x *index) remove(spans []span) {
	kept := x.entries[:0]
	for _, e := range x.entries {
		for len(spans) > 0 && spans[0].last < e.seq {
			spans = spans[1:]
		}
		if len(spans) > 0 && spans[0].first <= e.seq {
			x.forget(e)
		} else {
			kept = append(kept, e)
		}
	}
	clear(x.entries[len(kept):])
	x.entries = kept
}

// redrive marks the letters in spans.
func (x *index) redrive(spans []span) {
	for _, s := range spans {
		i, j := x.between(s)
		for ; i < j; i++ {
			if e := &x.entries[i]; !e.redriving {
				e.redriving = true
				x.redriving++
			}
		}
	}
}

// choose returns the letters of seqs, all of them for nil, as spans that hold no
// other letter and are in order. wanted says which of them count; n is how many do.
func (x *index) choose(seqs []uint64, wanted func(entry) bool) (spans []span, n int) {
	last := -2 // position in the span before
	add := func(i int) {
		e := x.entries[i]
		if !wanted(e) {
			return
		}
		n++
		if last == i-1 {
			spans[len(spans)-1].last = e.seq
		} else {
			spans = append(spans, span{e.seq, e.seq})
		}
		last = i
	}
	if seqs == nil {
		for i := range x.entries {
			add(i)
		}
		return spans, n
	}
	for _, seq := range slices.Compact(slices.Sorted(slices.Values(seqs))) {
		if i, found := x.find(seq); found {
			add(i)
		}
	}
	return spans, n
}
