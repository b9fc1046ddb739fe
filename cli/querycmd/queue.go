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

func (p *queuePart) read(ctx context.Context, take func(stored) error) error {
	return p.queue.Read(ctx, segment.SeqRange{From: 1, To: math.MaxUint64}, func(r segment.Record) error {
		p.progress.Done.Add(int64(len(r.Data)) + 1)
		return take(stored{line: r.Data, received: r.Received})
	}, p.lost)
}

// lost notes what is damaged.
func (p *queuePart) lost(f inspect.Finding) error {
	if f.Severity != inspect.Note {
		p.report.problem(f.String())
	}
	return nil
}
