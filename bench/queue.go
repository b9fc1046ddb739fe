package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/docket-export/docket/exporter/queue"
)

// recordsPerChunk is what one read of the stream source brings in when producers
// write linesPerWrite lines at a time.
const recordsPerChunk = linesPerWrite

// queueAlone appends from as many goroutines as there are producers, each with as
// much in flight, to a queue in this process. It returns records a second, and
// how many a commit had.
func (l *lab) queueAlone(ctx context.Context) (rate, perCommit float64, err error) {
	dir, remove, err := l.scratch()
	if err != nil {
		return 0, 0, err
	}
	defer remove()
	commits := 0
	q, err := queue.Open(queue.Options{
		Directory: filepath.Join(dir, "queue"),
		Committed: func(int, time.Duration) { commits++ },
	})
	if err != nil {
		return 0, 0, err
	}
	each := l.records / producers
	errs := make([]error, producers)
	var running sync.WaitGroup
	began := time.Now()
	for i := range producers {
		running.Go(func() { errs[i] = appendRecords(ctx, q, i, each) })
	}
	running.Wait()
	took := time.Since(began)
	if err := errors.Join(errors.Join(errs...), q.Close(ctx)); err != nil {
		return 0, 0, err
	}
	n := float64(each * producers)
	return n / took.Seconds(), n / float64(commits), nil
}

// appendRecords returns when all records are durable.
func appendRecords(ctx context.Context, q *queue.Queue, number, records int) error {
	b := newBlock(number)
	room := make(chan struct{}, linesInFlight/recordsPerChunk) // a token for each chunk under way
	settled := func() { <-room }
	for sent := 0; sent < records; {
		lines := b.next(uint64(sent), min(recordsPerChunk, records-sent))
		sent += len(lines) / recordBytes
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		c := queue.Chunk{
			Source: "bench", Producer: fmt.Sprint("bench-", number), Position: uint64(sent),
			Received: time.Now(), Records: lines, Count: len(lines) / recordBytes,
		}
		if err := q.Append(ctx, &c, settled); err != nil {
			return err
		}
	}
	for range cap(room) { // all tokens back: all is settled
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
