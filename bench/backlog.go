package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const (
	backlogRecords = 100_000
	// deliveryWait bounds the delivery of the backlog.
	deliveryWait = time.Minute
)

func (l *lab) backlog(ctx context.Context) (map[string]float64, error) {
	values, err := l.deliverBacklog(ctx)
	if err != nil {
		return nil, err
	}
	raw, err := l.raw(ctx, values["perBatch"], backlogRecords)
	values["appended"] = raw.appended
	return values, err
}

func (l *lab) deliverBacklog(ctx context.Context) (map[string]float64, error) {
	dir, remove, err := l.scratch()
	if err != nil {
		return nil, err
	}
	defer remove()
	if err := l.fillBacklog(ctx, dir); err != nil {
		return nil, err
	}
	began := time.Now()
	s, err := l.startSidecar(ctx, dir, toFile)
	if err != nil {
		return nil, err
	}
	defer s.kill()
	rate, err := s.watchDelivery(ctx)
	if err != nil {
		return nil, err
	}
	took := time.Since(began)
	batches, err := s.metric(ctx, fmt.Sprintf("docket_send_duration_seconds_count{sink=%q}", toFile))
	if err != nil {
		return nil, err
	}
	return map[string]float64{"rate": rate, "restart": took.Seconds(), "perBatch": backlogRecords / batches}, nil
}

// fillBacklog stores the records with docket, which cannot deliver them.
func (l *lab) fillBacklog(ctx context.Context, dir string) error {
	s, err := l.startSidecar(ctx, dir, heldBack)
	if err != nil {
		return err
	}
	if _, err := l.produce(ctx, load{s.socket, producers, linesInFlight, backlogRecords}); err != nil {
		s.kill()
		return err
	}
	return s.stop()
}

// watchDelivery waits until the file sink has the backlog, and returns the rate
// since its first bytes. It looks at the files, which costs docket nothing, and
// asks docket only about the end.
func (s *sidecar) watchDelivery(ctx context.Context) (rate float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, deliveryWait)
	defer cancel()
	const pause = time.Millisecond
	var first int64
	err = poll(ctx, pause, func() (bool, error) {
		first, err = directorySize(s.export)
		return first > 0, err
	})
	if err != nil {
		return 0, err
	}
	began := time.Now()
	err = poll(ctx, pause, func() (bool, error) {
		size, err := directorySize(s.export)
		return size >= backlogRecords*recordBytes, err
	})
	if err != nil {
		return 0, err
	}
	err = poll(ctx, pause, func() (bool, error) {
		n, err := s.delivered(ctx, toFile)
		return n >= backlogRecords, err
	})
	if err != nil {
		return 0, err
	}
	return (backlogRecords - float64(first)/recordBytes) / time.Since(began).Seconds(), nil
}

// directorySize is the size of all exported files. One that is renamed at this
// moment may be missed or counted twice; the end is asked of docket.
func directorySize(dir string) (total int64, err error) {
	names, err := filepath.Glob(filepath.Join(dir, "decisions-*"))
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		info, err := os.Stat(name)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return 0, err
		}
		total += info.Size()
	}
	return total, nil
}
