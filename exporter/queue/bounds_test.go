package queue

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
)

// A full queue that waits for its sinks prepares no file that it may not begin,
// also when frames that only count have taken the last one.
func TestFullQueuePreparesNothing(t *testing.T) {
	opts := Options{Directory: t.TempDir(), SegmentBytes: 64 << 10, MaxBytes: 512 << 10}
	q := open(t, opts)
	cursorOf(t, q, "dead")
	fill(t, q)
	for ready := true; ready; {
		store(t, q, largeTally())
		q.pool.mu.Lock()
		ready = q.pool.next != nil
		q.pool.mu.Unlock()
	}
	for range 2 { // the second is taken when what came of the first is done
		wake(q.prepare)
		await.Until(t, "preparations were looked after", func() bool { return len(q.prepare) == 0 })
	}
	var size int64
	for _, path := range slices.Concat(segmentFiles(t, opts.Directory), files(t, opts.Directory, state.BeginPrefix+"*")) {
		info, err := os.Stat(path)
		must(t, err)
		size += info.Size()
	}
	if size > opts.MaxBytes {
		t.Errorf("got %d bytes on disk, want at most %d", size, opts.MaxBytes)
	}
}

// largeTally is a chunk without records that takes 8 KiB.
func largeTally() *Chunk {
	c := &Chunk{Source: "test", Received: time.Now()}
	for n := range maxTallies {
		c.Refused = append(c.Refused, Tally{Name: fmt.Sprintf("%0*d", maxName, n), Count: 1})
	}
	return c
}

// spaceFS says how much is free.
type spaceFS struct {
	disk.FS
	free atomic.Int64
}

func (s *spaceFS) Space(string) (total, free int64, err error) { return 1 << 40, s.free.Load(), nil }

// The reserve of the file system is not touched, not by a single byte.
func TestMinFreeBytesStayFree(t *testing.T) {
	opts := Options{Directory: t.TempDir(), SegmentBytes: 64 << 10, MinFreeBytes: 1 << 20}
	fsys := &spaceFS{FS: disk.OS("")}
	opts.FS = fsys
	fsys.free.Store(opts.MinFreeBytes + opts.SegmentBytes - 1)
	q := open(t, opts)
	settled := make(chan struct{})
	must(t, q.Append(t.Context(), chunk("1"), func() { close(settled) }))
	await.Until(t, "the queue says that it cannot write", func() bool { return q.Stats().Err != nil })
	if err := q.Stats().Err; !errors.Is(err, unix.ENOSPC) {
		t.Errorf("health: got %v, want ENOSPC", err)
	}
	if got := files(t, opts.Directory, state.BeginPrefix+"*"); len(got) > 0 {
		t.Errorf("files made on a disk without room: %v", got)
	}
	fsys.free.Add(1)
	receive(t, "an acknowledgement, now that there is room", settled)
}
