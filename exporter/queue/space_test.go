package queue

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/testlog"
)

// The reserve is given up also by the docket after the one that took it.
func TestReserveFromBeforeAStop(t *testing.T) {
	dir := t.TempDir()
	reserve := filepath.Join(dir, state.ReserveFile)
	reserved := func() bool { _, err := os.Stat(reserve); return err == nil }
	q := open(t, Options{Directory: dir})
	storeNumbered(t, q, 1, 5, 1)
	await.Until(t, "there is a reserve", reserved)
	closeQueue(t, q)
	fsys := &faultFS{FS: disk.OS("")}
	var written atomic.Bool // a checkpoint
	fsys.set(func(op, name string) error {
		if op != "create" || !strings.HasSuffix(name, disk.NewSuffix) {
			return nil
		}
		isCheckpoint := filepath.Base(name) == state.PositionsFile+disk.NewSuffix
		if isReserve := filepath.Base(name) == state.ReserveFile+disk.NewSuffix; (isCheckpoint || isReserve) && reserved() {
			return unix.ENOSPC
		}
		written.Store(written.Load() || isCheckpoint)
		return nil
	})
	q = open(t, Options{Directory: dir, FS: fsys})
	storeNumbered(t, q, 6, 6, 1)
	await.Until(t, "a checkpoint", written.Load)
}

// A disk that fails for long does not fill up.
func TestFailedAttemptsLeaveNoFiles(t *testing.T) {
	fsys := &faultFS{FS: disk.OS("")}
	var out testlog.Buffer
	opts := Options{Directory: t.TempDir(), FS: fsys, Log: slog.New(slog.NewTextHandler(&out, nil))}
	q := open(t, opts)
	storeNumbered(t, q, 1, 1, 1)
	var attempts atomic.Int32
	fsys.set(func(op, name string) error {
		if op != "sync" || !isSegment(name) {
			return nil
		}
		attempts.Add(1)
		return errDisk
	})
	must(t, q.Append(t.Context(), chunk(strings.Repeat("x", 1<<20)), nil))
	await.Until(t, "six attempts", func() bool { return attempts.Load() >= 6 })
	var size int64
	left := append(segmentFiles(t, opts.Directory), files(t, opts.Directory, state.BeginPrefix+"*")...)
	for _, f := range left {
		if info, err := os.Stat(f); err == nil {
			size += info.Size()
		}
	}
	if len(left) > 3 {
		t.Errorf("%d attempts left %d files of %d bytes together, of which Stats knows %d", attempts.Load(), len(left), size, q.Stats().Bytes)
	}
	if n := strings.Count(out.String(), "cannot write"); n > 2 {
		t.Errorf("one lasting fault was logged %d times", n)
	}
	fsys.set(nil)
}

// A chunk larger than MaxBytes, delivered, does not block the queue.
func TestOneHugeChunkDoesNotBlockForEver(t *testing.T) {
	q := open(t, Options{Directory: t.TempDir(), MaxBytes: 1 << 20})
	c := cursorOf(t, q, "a")
	store(t, q, chunk(strings.Repeat("x", 2<<20)))
	drain(t, q, c)
	must(t, c.Ack(1))
	ctx, cancel := context.WithTimeout(t.Context(), await.Left(t))
	defer cancel()
	if err := q.Append(ctx, chunk("{}"), nil); err != nil {
		t.Errorf("all is delivered: %v", err)
	}
}

// While a record waits for room that only the active segment can give, the disk
// fails for the janitor, and recovers: the record does not wait for another event.
func TestRoomIsMadeOnceTheDiskRecovers(t *testing.T) {
	fsys := &faultFS{FS: disk.OS("")}
	q := open(t, Options{Directory: t.TempDir(), MaxBytes: 1 << 20, FS: fsys})
	c := cursorOf(t, q, "a")
	store(t, q, chunk(strings.Repeat("x", 2<<20)))
	drain(t, q, c)
	var failed atomic.Int64 // rounds of the janitor while a record waits
	fsys.set(func(op, name string) error {
		if op != "write" || filepath.Base(name) != state.CursorsFile {
			return nil
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.space.turnedAway > 0 {
			failed.Add(1)
		}
		return unix.EIO
	})
	must(t, c.Ack(1))
	appended := make(chan error, 1)
	go func() { appended <- q.Append(t.Context(), chunk("{}"), nil) }()
	await.Until(t, "a round that fails while a record waits", func() bool { return failed.Load() > 1 })
	fsys.set(nil)
	select {
	case err := <-appended:
		must(t, err)
	case <-time.After(await.Left(t)):
		t.Fatal("everything is delivered, the disk is well, and a record still waits for room")
	}
}
