package querycmd

import (
	"context"
	"math"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/exporter/queue/inspect"
	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/sinks/filesink/verify"
)

// searchQueue searches the queue of the configuration: by its docket where one runs, else
// its files.
func (q *query) searchQueue(ctx context.Context) error {
	client, resting, err := q.flags.Find(ctx, "", inspect.OpenToLook)
	if err != nil {
		return err
	}
	p := queuePart{queue: resting, progress: &q.progress, report: &q.search.report}
	if client == nil {
		defer func() { _ = resting.Close() }() // it was only read
		return q.find(ctx, []part{&p})
	}
	if p.queue, err = client.Queue(ctx); err != nil {
		return command.Failed(err)
	}
	return q.find(ctx, []part{&p})
}

// queuePart is a queue, at work or at rest.
type queuePart struct {
	queue interface {
		Read(ctx context.Context, r segment.SeqRange, record func(segment.Record) error, lost func(inspect.Finding) error) error
	}
	progress *verify.Progress
	report   *report // gets what is damaged
}

func (p *queuePart) read(ctx context.Context, take func(*block) error) error {
	b := block{lines: make([]byte, 0, blockSize)}
	add := func(r segment.Record) error {
		if len(b.lines) > 0 && len(b.lines)+len(r.Data) >= blockSize {
			if err := take(&b); err != nil {
				return err
			}
			b.lines, b.received = b.lines[:0], b.received[:0]
		}
		b.lines = append(append(b.lines, r.Data...), '\n')
		b.received = append(b.received, r.Received)
		p.progress.Done.Add(int64(len(r.Data)) + 1)
		return nil
	}
	readErr := p.queue.Read(ctx, segment.SeqRange{From: 1, To: math.MaxUint64}, add, p.lost)
	if err := take(&b); err != nil { // also what an earlier call has returned
		return err
	}
	return readErr
}

// lost notes what is damaged.
func (p *queuePart) lost(f inspect.Finding) error {
	if f.Severity != inspect.Note {
		p.report.problem(f.String())
	}
	return nil
}
