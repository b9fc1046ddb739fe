package querycmd

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/decision/rawjson"
	"github.com/docket-export/docket/exporter/filter"
	"github.com/docket-export/docket/sinks/filesink/verify"
)

// search looks for records in the parts of an export or a queue, one part after the other, and
// writes what it finds.
type search struct {
	filter   *filter.Filter
	from, to time.Time // zero: not bounded
	out      writer

	found  atomic.Int64 // records that were written
	report report
}

// part is what can be read by itself: a file, or a queue.
type part interface {
	// read calls take with the records of the part, in order. An error of take ends it. Another
	// error says what could not be read.
	read(ctx context.Context, take func(stored) error) error
}

// stored is a record of a part. It is valid until take returns.
type stored struct {
	line        []byte    // without its newline
	received    time.Time // by the exporter; zero where only bounds are known
	first, last time.Time // the bounds; zero where nothing is known
}

// run writes what it finds in parts, in their order. An error of writing or the end of ctx
// ends the search.
func (s *search) run(ctx context.Context, parts []part) error {
	for _, p := range parts {
		var ended error
		err := p.read(ctx, func(r stored) error {
			if ended = context.Cause(ctx); ended == nil {
				ended = s.take(r)
			}
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
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return s.out.end()
}

// take writes r if it is looked for.
func (s *search) take(r stored) error {
	if rawjson.KindOf(r.line) != rawjson.Object {
		s.report.unreadable++
		return nil
	}
	taken, err := s.filter.Takes(r.line)
	if err != nil {
		s.report.cannotJudge(err)
	}
	if err != nil || !taken {
		return nil
	}
	if s.out.form == ndjson && s.from.IsZero() && s.to.IsZero() {
		s.found.Add(1)
		return s.out.line(r.line)
	}
	form, _ := decision.Normalize(r.line) // of an unknown record nothing is known
	m := r.moment(&form)
	isIn, isSure := m.isWithin(s.from, s.to)
	if !isIn {
		return nil
	}
	if !isSure {
		s.report.untimed++
	}
	s.found.Add(1)
	if s.out.form == csv {
		return s.out.csv(m, &form)
	}
	return s.out.line(r.line)
}
