package main

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/docket-export/docket/bench/record"
	"github.com/docket-export/docket/internal/disk"
)

// segmentBytes is the size of a segment of the queue, and how far the plain
// program goes before it writes over what it has written.
const segmentBytes = 64 << 20

// rawRates are records a second of the plain program at one commit size.
type rawRates struct {
	appended float64 // to a fresh file
	recycled float64 // over what the file has held before
}

// raw writes as many records as a program would that does nothing else: write
// and fdatasync of perCommit records at a time. First to a fresh file, and then
// over its beginning, again and again: blocks that have been written before need
// no new place on the disk.
func (l *lab) raw(ctx context.Context, perCommit float64, records int) (rawRates, error) {
	dir, remove, err := l.scratch()
	if err != nil {
		return rawRates{}, err
	}
	defer remove()
	f, err := os.Create(filepath.Join(dir, "raw"))
	if err != nil {
		return rawRates{}, err
	}
	defer f.Close()
	var r rawRates
	commit, total := commitOf(perCommit), records*record.Bytes
	w := overwriter{file: f, commit: commit, span: total}
	took, err := w.run(ctx, total)
	if err != nil {
		return rawRates{}, err
	}
	r.appended = float64(w.written) / record.Bytes / took.Seconds()
	w = overwriter{file: f, commit: commit, span: min(total, segmentBytes)}
	if took, err = w.run(ctx, total); err != nil {
		return rawRates{}, err
	}
	r.recycled = float64(w.written) / record.Bytes / took.Seconds()
	return r, nil
}

// commitOf returns the bytes of a commit of about n records.
func commitOf(n float64) []byte {
	lines := record.NewBlock(0).Next(0, record.PerBlock)
	size := max(1, int(n*record.Bytes))
	commit := make([]byte, 0, size)
	for len(commit) < size {
		commit = append(commit, lines[:min(len(lines), size-len(commit))]...)
	}
	return commit
}

// recycledFile makes a file the size of a segment that has been written once.
func recycledFile(ctx context.Context, name string) (*os.File, error) {
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	w := overwriter{file: f, commit: commitOf(record.PerBlock), span: segmentBytes}
	if _, err := w.run(ctx, segmentBytes); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// overwriter is the plain program: it writes and syncs the same commit from the
// start of the file to span, and from there again.
type overwriter struct {
	file    *os.File
	commit  []byte
	span    int
	at      int
	written int
}

// run makes commits until total bytes are written and returns the time they took.
func (w *overwriter) run(ctx context.Context, total int) (took time.Duration, err error) {
	for w.written < total {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		d, err := w.write()
		if err != nil {
			return 0, err
		}
		took += d
	}
	return took, nil
}

// write makes one commit. It is never split, so where it does not fit any more
// the next lap begins.
func (w *overwriter) write() (took time.Duration, err error) {
	if w.at > 0 && w.at+len(w.commit) > w.span {
		w.at = 0
	}
	began := time.Now()
	if _, err := w.file.WriteAt(w.commit, int64(w.at)); err != nil {
		return 0, err
	}
	if err := disk.Sync(w.file); err != nil {
		return 0, err
	}
	took = time.Since(began)
	w.at += len(w.commit)
	w.written += len(w.commit)
	return took, nil
}
