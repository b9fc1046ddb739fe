package client

import (
	"sync"
	"sync/atomic"

	"github.com/docket-export/docket/decision"
)

// raw is a record that TryLog has copied, to be encoded later: a line without its
// text.
type raw struct {
	decision.Copy
	kind   kind // as those of the line that it becomes
	rank   int
	cohort *cohort
	block  *rawBlock // where it lies
}

// rawBlock is memory for raws that lie one behind the other: who copies one record
// after another writes from line to line of the processor's cache, which is several
// times as fast as here and there. A block is in the pool as long as it has unused
// raws, and again when all of them are free.
type rawBlock struct {
	used int // raws handed out; owned by the one who has the block from the pool
	raws [16]raw
	free atomic.Int32 // of those that were handed out
}

// rawBlocks are those with unused raws.
var rawBlocks sync.Pool

// newRaw returns an empty raw.
func newRaw() *raw {
	b, ok := rawBlocks.Get().(*rawBlock)
	if !ok {
		b = new(rawBlock)
	}
	r := &b.raws[b.used]
	r.block = b
	if b.used++; b.used < len(b.raws) {
		rawBlocks.Put(b)
	}
	return r
}

// free returns a raw that is read no more to its block, and drops its strings.
func (r *raw) free() {
	b := r.block
	*r = raw{}
	if int(b.free.Add(1)) == len(b.raws) { // all were handed out, so no one else has b
		b.used = 0
		b.free.Store(0)
		rawBlocks.Put(b)
	}
}

// size is the most memory that r takes, before or after it gets its text, even in
// the buffer of a line that was used before.
func (r *raw) size() int { return max(r.MaxLine(), keepText) + lineOverhead }

// encode makes the line of r, which does not change.
func (r *raw) encode() *line {
	l := newLine(usualText)
	text := r.AppendLine(l.text)
	if cap(text) > cap(l.text) { // it has grown, perhaps by more than it needs
		text = append(make([]byte, 0, len(text)), text...)
	}
	l.text = text
	l.kind, l.rank, l.cohort = r.kind, r.rank, r.cohort
	return l
}
