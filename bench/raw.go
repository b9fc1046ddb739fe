package main

import (
	"os"
	"path/filepath"
	"time"

	"github.com/docket-export/docket/bench/record"
	"github.com/docket-export/docket/bench/trial"
	"github.com/docket-export/docket/internal/disk"
)

// segmentBytes is the size of a segment of the queue, and how far the plain
// program goes before it writes over what it has written.
const segmentBytes = 64 << 20

// raw returns how many records a second a program writes that does nothing else: write
// and fdatasync of perCommit records at a time. First to a fresh file, and then
// over its beginning, again and again: blocks that have been written before need
// no new place on the disk.
func (l *lab) raw(perCommit float64, records int) (appended, recycled float64) {
	f := trial.Must(os.Create(filepath.Join(l.scratch(), "raw")))
	defer f.Close()
	commit, total := commitOf(perCommit), records*record.Bytes
	fresh := overwriter{file: f, commit: commit, span: total}
	appended = fresh.run(l.T, total).rate()
	over := overwriter{file: f, commit: commit, span: min(total, segmentBytes)}
	return appended, over.run(l.T, total).rate()
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
func (l *lab) recycledFile(name string) *os.File {
	f := trial.Must(os.Create(name))
	l.Cleanup(f.Close)
	w := overwriter{file: f, commit: commitOf(record.PerBlock), span: segmentBytes}
	w.run(l.T, segmentBytes)
	return f
}

// overwriter is the plain program: it writes and syncs the same commit from the
// start of the file to span, and from there again.
type overwriter struct {
	file   *os.File
	commit []byte
	span   int
	at     int
}

// run makes commits until total bytes are written.
func (w *overwriter) run(t *trial.T, total int) (s stint) {
	written := 0
	for ; written < total; written += len(w.commit) {
		trial.Check(t.Context().Err())
		s.Took += w.write()
	}
	s.Records = written / record.Bytes
	return s
}

// write makes one commit. It is never split, so where it does not fit any more
// the next lap begins.
func (w *overwriter) write() time.Duration {
	if w.at > 0 && w.at+len(w.commit) > w.span {
		w.at = 0
	}
	began := time.Now()
	trial.Must(w.file.WriteAt(w.commit, int64(w.at)))
	trial.Check(disk.Sync(w.file))
	w.at += len(w.commit)
	return time.Since(began)
}

// writeOnce writes so many bytes from the start of f, and syncs it.
func writeOnce(f *os.File, size int) time.Duration {
	piece := commitOf(record.PerBlock)
	began := time.Now()
	for at := 0; at < size; at += len(piece) {
		trial.Must(f.WriteAt(piece[:min(len(piece), size-at)], int64(at)))
	}
	trial.Check(disk.Sync(f))
	return time.Since(began)
}
