package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/docket-export/docket/bench/host"
	"github.com/docket-export/docket/bench/record"
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
	values, err := l.plainBacklog(ctx, dir)
	if err != nil {
		return nil, err
	}
	for _, compress := range []string{"zstd", "gzip"} {
		if values[compress], err = l.compressBacklog(ctx, dir, compress); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// plainBacklog delivers the backlog to files as they are.
func (l *lab) plainBacklog(ctx context.Context, dir string) (map[string]float64, error) {
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
	batches, err := s.attempts(ctx, toFile)
	if err != nil {
		return nil, err
	}
	return map[string]float64{"rate": rate, "restart": took.Seconds(), "perBatch": backlogRecords / batches}, nil
}

// compressBacklog delivers the backlog once more, to a new sink that compresses, and
// returns the rate. The size of its files does not tell how far it is, so docket is
// asked.
func (l *lab) compressBacklog(ctx context.Context, dir, compress string) (rate float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, deliveryWait)
	defer cancel()
	s, err := l.startWith(ctx, dir, fileEntry(compress, filepath.Join(dir, compress), compress))
	if err != nil {
		return 0, err
	}
	defer s.kill()
	first := 0
	err = host.Poll(ctx, deliveredPause, func() (bool, error) {
		first, err = s.delivered(ctx, compress)
		return first > 0, err
	})
	if err != nil {
		return 0, err
	}
	if first >= backlogRecords {
		return 0, errors.New("the backlog was delivered before anybody could look: too few records to measure")
	}
	began := time.Now()
	if err := s.waitDelivered(ctx, compress, backlogRecords); err != nil {
		return 0, err
	}
	return float64(backlogRecords-first) / time.Since(began).Seconds(), nil
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
	return s.Stop()
}

// watchDelivery waits until the file sink has the backlog, and returns the rate
// since its first bytes. It looks at the files, which costs docket nothing, and
// asks docket only about the end.
func (s *sidecar) watchDelivery(ctx context.Context) (rate float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, deliveryWait)
	defer cancel()
	const pause = time.Millisecond
	var first int64
	err = host.Poll(ctx, pause, func() (bool, error) {
		first, err = directorySize(s.export)
		return first > 0, err
	})
	if err != nil {
		return 0, err
	}
	began := time.Now()
	err = host.Poll(ctx, pause, func() (bool, error) {
		size, err := directorySize(s.export)
		return size >= backlogRecords*record.Bytes, err
	})
	if err != nil {
		return 0, err
	}
	err = host.Poll(ctx, pause, func() (bool, error) {
		n, err := s.delivered(ctx, toFile)
		return n >= backlogRecords, err
	})
	if err != nil {
		return 0, err
	}
	return (backlogRecords - float64(first)/record.Bytes) / time.Since(began).Seconds(), nil
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
