package querycmd

import (
	"context"
	"errors"
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
	p := queuePart{queue: resting, progress: &q.progress}
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

	submit func(*block) bool
	block  *block // that is being filled
}

func (p *queuePart) read(ctx context.Context, submit func(*block) bool) {
	p.submit, p.block = submit, newBlock()
	err := p.queue.Read(ctx, segment.SeqRange{From: 1, To: math.MaxUint64}, p.add, p.lost)
	if errors.Is(err, errEnough) {
		return
	}
	if err != nil {
		p.problem(err.Error())
	}
	submit(p.block)
}

// add copies a record into a block.
func (p *queuePart) add(r segment.Record) error {
	if b := p.block; len(b.lines) > 0 && len(b.lines)+len(r.Data) >= blockSize {
		if !p.submit(b) {
			return errEnough
		}
		p.block = newBlock()
	}
	b := p.block
	b.lines = append(append(b.lines, r.Data...), '\n')
	b.received = append(b.received, r.Received)
	p.progress.Done.Add(int64(len(r.Data)) + 1)
	return nil
}

// lost notes what is damaged.
func (p *queuePart) lost(f inspect.Finding) error {
	if f.Severity != inspect.Note {
		p.problem(f.String())
	}
	return nil
}

func (p *queuePart) problem(text string) {
	p.block.report.problems = append(p.block.report.problems, text)
}
