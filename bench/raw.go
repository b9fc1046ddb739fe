package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// rawRates are records a second of the plain program at one commit size.
type rawRates struct {
	appended float64 // to a fresh file
	recycled float64 // over what the file has held before
}

// raw writes as many records as a program would that does nothing else: write
// and fdatasync of perCommit records at a time. First to a fresh file, and then
// over it: blocks that have been written before need no new place on the disk.
func (l *lab) raw(ctx context.Context, perCommit float64, records int) (rawRates, error) {
	dir, remove, err := l.scratch()
	if err != nil {
		return rawRates{}, err
	}
	defer remove()
	commit := commitOf(perCommit)
	f, err := os.Create(filepath.Join(dir, "raw"))
	if err != nil {
		return rawRates{}, err
	}
	defer f.Close()
	var r rawRates
	for _, rate := range []*float64{&r.appended, &r.recycled} {
		waits, err := writeCommits(ctx, f, commit, records*recordBytes)
		if err != nil {
			return rawRates{}, err
		}
		*rate = float64(records) / sum(waits).Seconds()
	}
	return r, nil
}

// commitOf returns the bytes of a commit of about n records.
func commitOf(n float64) []byte {
	b := newBlock(0)
	size := max(1, int(n*recordBytes))
	commit := make([]byte, 0, size)
	for len(commit) < size {
		commit = append(commit, b.lines[:min(len(b.lines), size-len(commit))]...)
	}
	return commit
}

// writeCommits writes total bytes from the start of f, one commit after another,
// and returns how long each took.
func writeCommits(ctx context.Context, f *os.File, commit []byte, total int) (waits []time.Duration, err error) {
	for at := 0; at < total; at += len(commit) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		piece := commit[:min(len(commit), total-at)]
		began := time.Now()
		if _, err := f.WriteAt(piece, int64(at)); err != nil {
			return nil, err
		}
		if err := fdatasync(f); err != nil {
			return nil, err
		}
		waits = append(waits, time.Since(began))
	}
	return waits, nil
}

func fdatasync(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func sum(list []time.Duration) (total time.Duration) {
	for _, d := range list {
		total += d
	}
	return total
}
