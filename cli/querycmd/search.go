package querycmd

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/decision/rawjson"
	"github.com/docket-export/docket/exporter/filter"
	"github.com/docket-export/docket/sinks/filesink/verify"
)

// blockSize is how much is judged at a time: large reads and writes cost less, and a block
// stays in the processor's cache.
const blockSize = 256 << 10

// search looks for records in the parts of an export or a queue, one part after the other.
type search struct {
	filter   *filter.Filter
	from, to time.Time // zero: not bounded
	form     form

	found  atomic.Int64 // records that were written
	report report
	rows   rows // of the block that is being judged
}

// part is what can be read by itself: a file, or a queue.
type part interface {
	// read calls take with the blocks of the part, in order. An error of take ends it. Another
	// error says what could not be read.
	read(ctx context.Context, take func(*block) error) error
}

// block is some records in a row. Its memory is used again for the next block.
type block struct {
	lines []byte // each with its newline
	// received is when the exporter received each of them; empty where only bounds are known.
	received []time.Time
	// first and last are the bounds; zero where nothing is known.
	first, last time.Time
}

// run writes what it finds in parts with write, in their order. An error of write or the end
// of ctx ends the search.
func (s *search) run(ctx context.Context, parts []part, write func(*rows) error) error {
	for _, p := range parts {
		var ended error
		err := p.read(ctx, func(b *block) error {
			if ended = context.Cause(ctx); ended != nil {
				return ended
			}
			s.judge(b)
			ended = write(&s.rows)
			s.found.Add(int64(s.rows.count))
			return ended
		})
		switch {
		case ended != nil:
			return ended
		case errors.Is(err, verify.ErrRemoved):
			s.report.notes = append(s.report.notes, err.Error())
		case err != nil:
			s.report.problem(err.Error())
		}
	}
	return context.Cause(ctx)
}

// judge sets the rows to the records of b that are looked for.
func (s *search) judge(b *block) {
	s.rows = s.rows.empty()
	lines := b.lines
	for n := uint64(0); len(lines) > 0; n++ {
		end := bytes.IndexByte(lines, '\n')
		line := lines[:end]
		lines = lines[end+1:]
		if rawjson.KindOf(line) != rawjson.Object {
			s.report.unreadable++
			continue
		}
		taken, err := s.filter.Takes(line)
		switch {
		case err != nil:
			s.report.cannotJudge(err)
			continue
		case !taken:
			continue
		case s.form == ndjson && s.from.IsZero() && s.to.IsZero():
			s.rows.addLine(line)
			continue
		}
		form, _ := decision.Normalize(line) // of an unknown record nothing is known
		m := b.momentOf(line, &form, n)
		isIn, isSure := m.isWithin(s.from, s.to)
		if !isIn {
			continue
		}
		if !isSure {
			s.report.untimed++
		}
		if s.form == csv {
			s.rows.addCSV(m, &form)
		} else {
			s.rows.addLine(line)
		}
	}
}
