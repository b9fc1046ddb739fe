package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/bench/record"
	"github.com/docket-export/docket/bench/site"
	"github.com/docket-export/docket/exporter/queue"
)

// readRecords is a backlog that takes the disk a while to read.
const readRecords = 512 << 10

// readBacklog reads a backlog and, before and after, the same files with the plain
// program: from the disk, and then from the page cache.
func (l *lab) readBacklog(ctx context.Context) (map[string]float64, error) {
	scratch, remove, err := l.scratch()
	if err != nil {
		return nil, err
	}
	defer remove()
	dir := filepath.Join(scratch, "queue")
	if err := fillQueue(ctx, dir, readRecords); err != nil {
		return nil, err
	}
	// Once without a clock: beneath a virtual disk there may be another cache.
	if _, err := readPlain(ctx, dir, true); err != nil {
		return nil, err
	}
	programs := []struct {
		key  string
		cold bool
		read func(context.Context, string, bool) (transfer, error)
	}{
		{"cold", true, readQueue}, {"rawCold", true, readPlain},
		{"warm", false, readQueue}, {"rawWarm", false, readPlain},
	}
	totals := make([]transfer, len(programs))
	for range readPasses {
		for i, p := range programs {
			one, err := p.read(ctx, dir, p.cold)
			if err != nil {
				return nil, err
			}
			totals[i].bytes += one.bytes
			totals[i].took += one.took
		}
	}
	values := map[string]float64{}
	for i, p := range programs {
		values[p.key] = totals[i].rate()
	}
	return values, nil
}

// readPasses are how often each program reads the backlog, in turn: a disk without
// writes is as moody as one with.
const readPasses = 3

// transfer is an amount of data and the time it took.
type transfer struct {
	bytes int
	took  time.Duration
}

func (t transfer) rate() float64 { return float64(t.bytes) / 1e6 / t.took.Seconds() } // MB/s

// Names of cursors.
const (
	// keeper reads nothing, so that nothing is let go.
	keeper = heldBack
	reader = "reader"
)

// fillQueue makes a queue with a backlog for keeper.
func fillQueue(ctx context.Context, dir string, records int) error {
	t, err := openTrack(dir, 0)
	if err != nil {
		return err
	}
	c, err := t.q.Cursor(keeper, false)
	if err != nil {
		return errors.Join(err, t.close(ctx))
	}
	c.Close()
	_, err = t.feed(ctx, records)
	return errors.Join(err, t.close(ctx))
}

// readQueue has a new cursor take everything. Of the bytes it counts those of the
// records.
func readQueue(ctx context.Context, dir string, cold bool) (t transfer, err error) {
	q, err := queue.Open(queue.Options{Directory: dir})
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, q.Close(ctx)) }()
	c, err := q.Cursor(reader, false)
	if err != nil {
		return t, err
	}
	if err := settle(ctx, dir); err != nil {
		return t, err
	}
	if cold {
		if err := dropCache(dir); err != nil {
			return t, err
		}
	}
	t.bytes = int(q.LastSeq()+1-c.Account().Next) * record.Bytes
	began := time.Now()
	err = takeAll(ctx, c, q.LastSeq())
	t.took = time.Since(began)
	c.Close()
	q.Forget(reader) // the next begins at the beginning again
	return t, err
}

// readPlain is the plain program: it reads the large files in dir, the segments.
func readPlain(ctx context.Context, dir string, cold bool) (t transfer, err error) {
	if cold {
		if err := dropCache(dir); err != nil {
			return t, err
		}
	}
	const large = 1 << 20
	buf := make([]byte, 1<<20)
	began := time.Now()
	err = eachFile(dir, func(f *os.File) error {
		if info, err := f.Stat(); err != nil || info.Size() < large {
			return err
		}
		for ctx.Err() == nil {
			n, err := f.Read(buf)
			t.bytes += n
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
		}
		return ctx.Err()
	})
	t.took = time.Since(began)
	return t, err
}

// dropCache makes the system forget what it has in memory of the files in dir.
func dropCache(dir string) error {
	if err := site.Rest(dir); err != nil { // only clean pages can go
		return err
	}
	return eachFile(dir, func(f *os.File) error {
		if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
			return fmt.Errorf("fadvise %s: %w", f.Name(), err)
		}
		return nil
	})
}

// eachFile opens the files in dir in the order of their names.
func eachFile(dir string, do func(*os.File) error) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		f, err := os.Open(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		err = do(f)
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
