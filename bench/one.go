package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/docket-export/docket/exporter/queue"
)

// oneByOne measures the queue and the plain program in turns of a few records.
func (l *lab) oneByOne(ctx context.Context) (map[string]float64, error) {
	dir, remove, err := l.scratch()
	if err != nil {
		return nil, err
	}
	defer remove()
	raw, err := recycledFile(ctx, filepath.Join(dir, "raw"))
	if err != nil {
		return nil, err
	}
	defer raw.Close()
	t, err := openTrack(filepath.Join(dir, "queue"), 1)
	if err != nil {
		return nil, err
	}
	values, err := t.oneByOne(ctx, raw)
	return values, errors.Join(err, t.close(ctx))
}

func (t *track) oneByOne(ctx context.Context, raw *os.File) (map[string]float64, error) {
	if _, err := t.laps(ctx, warmLaps); err != nil {
		return nil, err
	}
	if err := settle(ctx, t.dir); err != nil {
		return nil, err
	}
	plain := overwriter{file: raw, commit: commitOf(1), span: segmentBytes}
	waits, err := inTurns(ctx, plain.writeEach, t.appendEach)
	if err != nil {
		return nil, err
	}
	var v struct{ p50, p99, raw50, raw99 float64 }
	v.raw50, v.raw99 = quantiles(waits[0])
	v.p50, v.p99 = quantiles(waits[1])
	return map[string]float64{"p50": v.p50, "p99": v.p99, "raw": v.raw50, "raw99": v.raw99}, nil
}

// appendEach is a waiter that appends records one at a time, until each is
// durable.
func (t *track) appendEach(ctx context.Context, records int) (waits []time.Duration, err error) {
	f := t.feeders[0]
	durable := make(chan struct{}, 1)
	settled := func() { durable <- struct{}{} }
	for range records {
		line := f.block.Next(int(f.sent), 1)
		f.sent++
		c := queue.Chunk{Source: "bench", Producer: f.name, Position: f.sent, Received: time.Now(), Records: line, Count: 1}
		began := time.Now()
		if err := t.q.Append(ctx, &c, settled); err != nil {
			return nil, err
		}
		select {
		case <-durable:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		waits = append(waits, time.Since(began))
	}
	return waits, nil
}
