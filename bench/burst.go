package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/docket-export/docket/bench/record"
	"github.com/docket-export/docket/bench/site"
	"github.com/docket-export/docket/internal/disk"
)

const (
	burstRecords = 100_000
	burstTurns   = 5
	burstBytes   = burstRecords * record.Bytes
)

// burst measures how long 100,000 records take to the last ack.
func (l *lab) burst(ctx context.Context) (map[string]float64, error) {
	dir, remove, err := l.scratch()
	if err != nil {
		return nil, err
	}
	defer remove()
	s, err := l.startSteady(ctx, filepath.Join(dir, "docket"), setup{}, 1)
	if err != nil {
		return nil, err
	}
	defer s.end()
	waits := map[string][]time.Duration{}
	for range burstTurns {
		for _, kind := range []struct {
			key       string
			producers int
		}{{"one", 1}, {"eight", producers}} {
			lap, err := s.lap(ctx, load{Producers: kind.producers, Window: burstRecords, Records: burstRecords}, false)
			if err != nil {
				return nil, errors.Join(err, s.LastWords())
			}
			waits[kind.key] = append(waits[kind.key], lap.took)
		}
		fresh, recycled, err := writeTwice(ctx, filepath.Join(dir, "raw"))
		if err != nil {
			return nil, err
		}
		waits["fresh"], waits["recycled"] = append(waits["fresh"], fresh), append(waits["recycled"], recycled)
	}
	values := map[string]float64{}
	for key, w := range waits {
		p50, _ := quantiles(w)
		values[key] = p50 / 1000
	}
	return values, nil
}

// writeTwice writes the bytes of a burst to a new file and syncs it once, and again
// over what is there. It leaves no file.
func writeTwice(ctx context.Context, name string) (fresh, recycled time.Duration, err error) {
	if err := site.Rest(filepath.Dir(name)); err != nil {
		return 0, 0, err
	}
	f, err := os.Create(name)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(name)) }()
	if fresh, err = writeOnce(ctx, f); err != nil {
		return 0, 0, err
	}
	recycled, err = writeOnce(ctx, f)
	return fresh, recycled, err
}

// writeOnce writes the bytes of a burst from the start of f, and syncs it.
func writeOnce(ctx context.Context, f *os.File) (time.Duration, error) {
	piece := commitOf(record.PerBlock)
	began := time.Now()
	for at := 0; at < burstBytes; at += len(piece) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if _, err := f.WriteAt(piece[:min(len(piece), burstBytes-at)], int64(at)); err != nil {
			return 0, err
		}
	}
	err := disk.Sync(f)
	return time.Since(began), err
}
