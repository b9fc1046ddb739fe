package querycmd

import (
	"bytes"
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/decision/rawjson"
	"github.com/docket-export/docket/exporter/filter"
)

const (
	// blockSize is how much is judged at a time: handing a block over costs next to nothing
	// then, and it stays in the processor's cache.
	blockSize = 256 << 10
	// blocksAhead is how many blocks of a part may wait to be written.
	blocksAhead = 4
	// maxAtOnce bounds how many parts are read at once, and so the memory.
	maxAtOnce = 8
)

// search looks for records in the parts of an export or a queue, several at a time, and
// writes them in order. Memory is bounded: a part that is ahead waits.
type search struct {
	filter   *filter.Filter
	from, to time.Time // zero: not bounded
	form     form

	found  atomic.Int64 // records that were written
	report report       // of the blocks that were written
}

// part is what can be read by itself: a file, or a queue.
type part interface {
	// read calls submit with the blocks of the part, in order, until submit reports false. A
	// submitted block is the search's. What goes wrong is a problem in the last one's report.
	read(ctx context.Context, submit func(*block) bool)
}

// block is some records in a row.
type block struct {
	lines []byte // each with its newline
	// received is when the exporter received each of them; empty where only bounds are known.
	received []time.Time
	// first and last are the bounds; zero where nothing is known.
	first, last time.Time
	// counts reports whether a line, from 0 on, does; nil: all do.
	counts func(line uint64) bool

	rows   rows
	report report
	judged chan struct{} // closed when rows and report are set
}

// blocks is memory to be used again.
var blocks = sync.Pool{New: func() any { return &block{lines: make([]byte, 0, blockSize)} }}

func newBlock() *block {
	b := blocks.Get().(*block)
	*b = block{lines: b.lines[:0], received: b.received[:0], rows: b.rows.empty(), judged: make(chan struct{})}
	return b
}

// free gives the memory of b back, unless a long record has made it large.
func (b *block) free() {
	if cap(b.lines) <= 4*blockSize {
		blocks.Put(b)
	}
}

// run writes what it finds in parts with write, in their order. An error of write or the end
// of ctx ends the search.
func (s *search) run(ctx context.Context, parts []part, write func(*rows) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var working sync.WaitGroup
	defer working.Wait()
	defer cancel()
	begun := make(chan chan *block, min(runtime.GOMAXPROCS(0), maxAtOnce)-1) // in the order of parts
	working.Go(func() {
		defer close(begun)
		for _, p := range parts {
			waiting := make(chan *block, blocksAhead)
			select {
			case begun <- waiting:
			case <-ctx.Done():
				return
			}
			working.Go(func() {
				defer close(waiting)
				p.read(ctx, func(b *block) bool {
					select {
					case waiting <- b:
					case <-ctx.Done():
						return false
					}
					working.Go(func() {
						defer close(b.judged)
						s.judge(b)
					})
					return true
				})
			})
		}
	})
	for waiting := range begun {
		for b := range waiting {
			<-b.judged
			s.report.add(&b.report)
			s.found.Add(int64(b.rows.count))
			if err := write(&b.rows); err != nil {
				return err
			}
			b.free()
		}
	}
	return context.Cause(ctx)
}

// judge sets the rows of b to its records that are looked for.
func (s *search) judge(b *block) {
	lines := b.lines
	for n := uint64(0); len(lines) > 0; n++ {
		end := bytes.IndexByte(lines, '\n')
		line := lines[:end]
		lines = lines[end+1:]
		if b.counts != nil && !b.counts(n) || !s.filter.MayTake(line) {
			continue
		}
		if rawjson.KindOf(line) != rawjson.Object {
			b.report.unreadable++
			continue
		}
		taken, err := s.filter.Takes(line)
		switch {
		case err != nil:
			b.report.cannotJudge(err)
			continue
		case !taken:
			continue
		case s.form == ndjson && s.from.IsZero() && s.to.IsZero():
			b.rows.addLine(line)
			continue
		}
		form, _ := decision.Normalize(line) // of an unknown record nothing is known
		m := b.momentOf(line, &form, n)
		isIn, isSure := m.isWithin(s.from, s.to)
		if !isIn {
			continue
		}
		if !isSure {
			b.report.untimed++
		}
		switch s.form {
		case ndjson:
			b.rows.addLine(line)
		case csv:
			b.rows.addCSV(m, &form)
		case table:
			b.rows.addCells(m, &form)
		}
	}
}
