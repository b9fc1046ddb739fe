package queue

import (
	"context"
	"errors"
	"hash/crc32"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
)

// diskUse is the size of all files that MaxBytes bounds. A file that goes
// meanwhile does not count.
func diskUse(t *testing.T, dir string) (size int64) {
	t.Helper()
	for _, path := range slices.Concat(segmentFiles(t, dir), files(t, dir, state.BeginPrefix+"*")) {
		if info, err := os.Stat(path); err == nil {
			size += info.Size()
		}
	}
	return size
}

// errFull says that a queue takes no record until a sink moves on.
var errFull = errors.New("the queue is full")

// appendOrFull is Append that does not wait for a sink: it gives up with errFull.
func appendOrFull(ctx context.Context, q *Queue, c *Chunk, settled func()) error {
	for {
		room := q.room.Wait()
		first, ok, err := q.tryAppend(c, crc32.Checksum(c.Records, castagnoli), settled)
		if first {
			wake(q.work)
		}
		if ok || err != nil {
			return err
		}
		q.mu.Lock()
		full := c.Count > 0 && !q.hasRoom(c.FrameSize()) && !q.isMakingRoom() && q.opts.WhenFull == Block
		q.mu.Unlock()
		if full {
			return errFull
		}
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// appendUntilFull gives a queue more than it takes.
func appendUntilFull(t *testing.T, q *Queue) {
	t.Helper()
	var err error
	for err == nil {
		err = appendOrFull(t.Context(), q, chunk(strings.Repeat("x", 9000)), nil)
	}
	if !errors.Is(err, errFull) {
		t.Fatal(err)
	}
}

// A full queue goes on counting, within its bound:
// records do not fill the room that is kept for counts.
func TestCountingStaysWithinMaxBytes(t *testing.T) {
	opts := Options{Directory: t.TempDir(), SegmentBytes: 1 << 20, MaxBytes: 8 << 20}
	q := open(t, opts)
	cursorOf(t, q, "dead")
	for n := range fewer(1200) + 400 { // the first 400 fill it
		err := appendOrFull(t.Context(), q, chunk(strings.Repeat("x", 20_000)), nil)
		if errors.Is(err, errFull) {
			store(t, q, largeTally())
		} else {
			must(t, err)
		}
		if n%20 == 0 {
			if got := diskUse(t, opts.Directory); got > opts.MaxBytes {
				t.Fatalf("after %d records: %d bytes on disk, want at most %d", n, got, opts.MaxBytes)
			}
		}
	}
}

// A full queue that is killed again and again, and has to write the end of its log
// again each time, does not grow, but for what is left of the segment before.
func TestKilledFullQueueStaysWithinMaxBytes(t *testing.T) {
	opts := Options{Directory: t.TempDir(), SegmentBytes: 1 << 20, MaxBytes: 8 << 20}
	for n := range 6 {
		q := open(t, opts)
		cursorOf(t, q, "dead")
		appendUntilFull(t, q)
		copied := t.TempDir()
		await.Until(t, "nothing changes during the copy", func() bool {
			copied = t.TempDir()
			return os.CopyFS(copied, os.DirFS(opts.Directory)) == nil
		})
		closeQueue(t, q)
		opts.Directory = copied
		// A copy may have the two small files that are replaced twice, old and new.
		if got, most := diskUse(t, copied), opts.MaxBytes+96<<10; got > most {
			t.Fatalf("after %d kills: %d bytes on disk, want at most %d", n+1, got, most)
		}
	}
}

// A used-up quota is a full disk: what sinks have delivered makes room.
func TestQuotaIsAFullDisk(t *testing.T) {
	fsys := &faultFS{FS: disk.OS("")}
	opts := Options{Directory: t.TempDir(), SegmentBytes: 128 << 10, FS: fsys, WhenFull: DropOldest}
	q := open(t, opts)
	cursorOf(t, q, "dead")
	for range 6 {
		store(t, q, chunk(strings.Repeat("x", 100_000)))
	}
	fsys.set(func(op, name string) error {
		if op == "create" && isBegun(name) && len(segmentFiles(t, opts.Directory)) >= 6 {
			return unix.EDQUOT
		}
		return nil
	})
	for range 12 {
		store(t, q, chunk(strings.Repeat("x", 100_000)))
	}
	if a := q.Stats().Cursors["dead"]; a.Dropped == 0 {
		t.Errorf("account: got %+v, want some dropped", a)
	}
}

// What Stats calls free is what the queue takes, but for the ends of segments: from an empty queue until it
// is full, and again when a sink has passed what is kept for a replay.
func TestFreeIsWhatIsTaken(t *testing.T) {
	const segment, line = 1 << 20, 9000
	opts := Options{
		Directory: t.TempDir(), SegmentBytes: segment, MaxBytes: 8 << 20,
		Retain: Retain{MaxBytes: 8 << 20},
	}
	q := open(t, opts)
	c := cursorOf(t, q, "slow")
	fill := func() {
		t.Helper()
		free, before := q.Stats().Free, q.Stats().LastSeq
		appendUntilFull(t, q)
		taken := int64(q.Stats().LastSeq-before) * line
		if taken > free+segment || taken < free-2*segment {
			t.Errorf("%d bytes were free, and %d were taken", free, taken)
		}
		if got := q.Stats().Free; got >= line {
			t.Errorf("%d bytes are free in a full queue", got)
		}
	}
	fill()
	drain(t, q, c)
	must(t, c.Ack(q.LastSeq()))
	if got := q.Stats().Free; got < opts.MaxBytes/2 {
		t.Errorf("%d bytes are free when the sink has passed everything, want half of the queue at least", got)
	}
	fill()
}
