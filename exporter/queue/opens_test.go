package queue

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// No checkpoint can be written while the queue fills and drains.
func TestFullQueueAfterCheckpointFaults(t *testing.T) {
	fsys := &faultFS{FS: osFS{}}
	fsys.set(func(op, name string) error {
		if op == "create" && strings.HasSuffix(name, positionsFile+".new") {
			return unix.ENOSPC
		}
		return nil
	})
	opts := Options{Directory: t.TempDir(), SegmentBytes: 1, MaxBytes: 40 << 10, FS: fsys}
	q := open(t, opts)
	c := cursorOf(t, q, "a")
	last := fill(t, q)
	drain(t, q, c)
	must(t, c.Ack(last))
	q.Close(t.Context())
	opts.FS = nil // the disk is well again
	q = open(t, opts)
	cursorOf(t, q, "a")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if err := q.Append(ctx, chunk("{}"), nil); err != nil {
		t.Errorf("everything is delivered, the disk is well, and: %v (%+v)", err, q.Stats())
	}
}

// EIO on one segment header.
func TestOneUnreadableBlockDoesNotStopOpen(t *testing.T) {
	opts := Options{Directory: t.TempDir(), SegmentBytes: 1}
	q := open(t, opts)
	storeNumbered(t, q, 1, 3, 1)
	closeQueue(t, q)
	opts.FS = &badBlockFS{FS: osFS{}, name: filepath.Base(segmentFiles(t, opts.Directory)[0])}
	q, err := Open(opts)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	closeQueue(t, q)
}

type badBlockFS struct {
	FS
	name string
}
type badBlockFile struct{ File }

func (f *badBlockFS) Open(name string) (File, error) {
	file, err := f.FS.Open(name)
	if filepath.Base(name) == f.name {
		return badBlockFile{file}, err
	}
	return file, err
}
func (f badBlockFile) ReadAt(p []byte, off int64) (int, error) {
	if off < 4096 {
		return 0, unix.EIO
	}
	return f.File.ReadAt(p, off)
}

// A chunk larger than MaxBytes, delivered, does not block the queue.
func TestOneHugeChunkDoesNotBlockForEver(t *testing.T) {
	q := open(t, Options{Directory: t.TempDir(), MaxBytes: 1 << 20})
	c := cursorOf(t, q, "a")
	store(t, q, chunk(strings.Repeat("x", 2<<20)))
	drain(t, q, c)
	must(t, c.Ack(1))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := q.Append(ctx, chunk("{}"), nil); err != nil {
		t.Errorf("all is delivered: %v", err)
	}
}
