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

// Delivered segments go although no checkpoint can be written.
func TestFullDiskStillFreesSegments(t *testing.T) {
	fsys := &faultFS{FS: disk.OS("")}
	q := open(t, Options{Directory: t.TempDir(), SegmentBytes: 1, FS: fsys})
	c := cursorOf(t, q, "a")
	storeNumbered(t, q, 1, 5, 1)
	await.Until(t, "checkpoint reaches the fourth segment", func() bool {
		cp, ok := readCheckpoint(t, q.opts.Directory)
		return ok && cp.Epoch == 4
	})
	fsys.set(func(op, name string) error {
		if op == "create" && strings.HasSuffix(name, state.PositionsFile+".new") {
			return unix.ENOSPC
		}
		return nil
	})
	storeNumbered(t, q, 6, 6, 1)
	drain(t, q, c)
	must(t, c.Ack(6))
	await.Until(t, "the segments that the old checkpoint covers are gone", func() bool { return q.Stats().FirstSeq >= 5 })
	fsys.set(nil)
}

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
	files := segmentFiles(t, opts.Directory)
	for _, f := range files {
		info, err := os.Stat(f)
		must(t, err)
		size += info.Size()
	}
	if len(files) > 3 {
		t.Errorf("%d attempts left %d segments of %d bytes together, of which Stats knows %d", attempts.Load(), len(files), size, q.Stats().Bytes)
	}
	if n := strings.Count(out.String(), "cannot write"); n > 2 {
		t.Errorf("one lasting fault was logged %d times", n)
	}
	fsys.set(nil)
}

// Frames without records do not grow a full queue for ever.
func TestCountingQueueStaysBounded(t *testing.T) {
	opts := Options{Directory: t.TempDir(), SegmentBytes: 8 << 10, MaxBytes: 40 << 10}
	q := open(t, opts)
	cursorOf(t, q, "dead")
	fill(t, q)
	for range 1500 {
		store(t, q, &Chunk{Source: "test", Received: time.Now(), Refused: []Tally{{Name: "TooLarge", Count: 1}}})
	}
	await.Until(t, "the queue is within its bound", func() bool { return q.Stats().Bytes <= 2*opts.MaxBytes })
}

type removeFaultFS struct {
	disk.FS
	fail atomic.Int32
}

func (f *removeFaultFS) Remove(name string) error {
	if isSegment(name) && f.fail.Add(-1) >= 0 {
		return unix.EIO
	}
	return f.FS.Remove(name)
}

// A segment whose removal failed is removed later.
func TestRemovalIsTriedAgain(t *testing.T) {
	fsys := &removeFaultFS{FS: disk.OS("")}
	opts := Options{Directory: t.TempDir(), SegmentBytes: 1, FS: fsys}
	q := open(t, opts)
	c := cursorOf(t, q, "a")
	storeNumbered(t, q, 1, 5, 1)
	await.Until(t, "checkpoint", func() bool {
		cp, ok := readCheckpoint(t, q.opts.Directory)
		return ok && cp.Epoch == 4
	})
	fsys.fail.Store(1)
	drain(t, q, c)
	must(t, c.Ack(5))
	await.Until(t, "gone from the list", func() bool { return q.Stats().FirstSeq == 5 })
	await.Until(t, "all but the last are removed", func() bool { return len(segmentFiles(t, opts.Directory)) == 1 })
}

// No checkpoint can be written while the queue fills and drains.
func TestFullQueueAfterCheckpointFaults(t *testing.T) {
	fsys := &faultFS{FS: disk.OS("")}
	fsys.set(func(op, name string) error {
		if op == "create" && strings.HasSuffix(name, state.PositionsFile+".new") {
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
	ctx, cancel := context.WithTimeout(t.Context(), await.Left(t))
	defer cancel()
	if err := q.Append(ctx, chunk("{}"), nil); err != nil {
		t.Errorf("everything is delivered, the disk is well, and: %v (%+v)", err, q.Stats())
	}
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

// A segment goes only after the cursors that release it and the checkpoint that
// covers it are durable: written, synced, and their name too.
func TestSegmentsStayUntilWhatReleasesThemIsDurable(t *testing.T) {
	t.Parallel()
	for _, step := range []struct{ op, suffix string }{
		{"write", state.CursorsFile}, {"sync", state.CursorsFile},
		{"create", state.PositionsFile + ".new"}, {"write", state.PositionsFile + ".new"}, {"sync", state.PositionsFile + ".new"},
		{"syncdir", ""}, // after the checkpoint's rename
	} {
		t.Run(step.op+" "+step.suffix, func(t *testing.T) {
			fsys := &faultFS{FS: disk.OS("")}
			q := open(t, Options{Directory: t.TempDir(), SegmentBytes: 1, FS: fsys})
			c := cursorOf(t, q, "a")
			await.Until(t, "the new sink is durable", func() bool {
				f, a, err := state.OpenCursorFile(disk.OS(""), q.opts.Directory)
				if err == nil {
					f.File.Close()
				}
				return err == nil && len(a) == 1
			})
			var failed atomic.Int32
			var replacing atomic.Bool // the positions file is being replaced
			fsys.set(func(op, name string) error {
				if strings.HasSuffix(name, state.PositionsFile+".new") && (op == "sync" || op == "remove") {
					replacing.Store(op == "sync") // until it has failed: others sync the directory as well
				}
				if op != step.op || !strings.HasSuffix(name, step.suffix) || (op == "syncdir" && !replacing.Load()) {
					return nil
				}
				failed.Add(1)
				return errDisk
			})
			storeNumbered(t, q, 1, 5, 1)
			drain(t, q, c)
			must(t, c.Ack(5))
			await.Until(t, "the step is tried again", func() bool { return failed.Load() >= 3 })
			if got := q.Stats().FirstSeq; got != 1 {
				t.Errorf("first kept record: got %d, want 1", got)
			}
			fsys.set(nil)
			await.Until(t, "segments go once the disk is well", func() bool { return q.Stats().FirstSeq == 5 })
		})
	}
}
