package inspect

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/exporter/queue/state"
)

// errStop ends a walk that has seen enough.
var errStop = errors.New("stop")

// Read calls record with the records in r that the queue holds, in order; their bytes are valid
// until it returns. Read skips damaged and missing records in r, and calls lost for them and for
// records that were removed meanwhile. An error of record or lost ends Read, which returns it.
func (o *Queue) Read(ctx context.Context, r segment.SeqRange, record func(segment.Record) error, lost func(Finding) error) error {
	return o.ReadOn(ctx, nil, r, record, lost)
}

// ReadOn is Read from the place at, which an earlier ReadOn has set. It
// sets at to how far it has come. It does not read the part of a segment before the place
// again.
func (o *Queue) ReadOn(ctx context.Context, at *Place, r segment.SeqRange, record func(segment.Record) error, lost func(Finding) error) error {
	report := check{o: o, found: func(f Finding) error {
		isIn := max(f.Lost.From, r.From) < min(f.Lost.To, r.To)
		if isIn || f.Kind == UnreadableFile {
			return lost(f)
		}
		return nil
	}}
	var known segment.Names
	w := walk{o: o, ctx: ctx, at: at, unreadable: report.unreadable}
	w.gone = report.gone
	w.visit = func(s, before *segment.Stored, it *segment.Item) error {
		switch it.Kind {
		case segment.IsTail:
			return nil
		case segment.IsHole, segment.IsGap:
			return report.item(s, before, it)
		}
		f, payload := &it.Frame, it.Payload()
		if f.FirstSeq >= r.To {
			return errStop
		}
		known.Set(f.Source, f.Producer)
		incarnation := o.found.Lineage.At(f.FirstSeq)
		for seq := f.FirstSeq; len(payload) > 0 && seq < r.To; seq++ {
			line, rest, _ := bytes.Cut(payload, []byte("\n"))
			payload = rest
			if seq < r.From {
				continue
			}
			err := record(segment.Record{
				Seq: seq, Incarnation: incarnation, Source: known.Source, Producer: known.Producer,
				Received: time.Unix(0, f.Received).UTC(), Data: line,
			})
			if err != nil {
				return err
			}
		}
		return nil
	}
	if err := w.run(r.From); !errors.Is(err, errStop) {
		return err
	}
	return nil
}

// Sink returns the account of a sink; ok is false when the queue does not know it.
func (o *Queue) Sink(name string) (a state.Account, ok bool) {
	a, ok = o.found.Accounts[name]
	return a, ok
}

// FirstSeq is the seq of the first record that may be kept, 0 when none is.
func (o *Queue) FirstSeq() uint64 {
	if len(o.found.Segments) == 0 {
		return 0
	}
	return o.found.Segments[0].FirstSeq
}
