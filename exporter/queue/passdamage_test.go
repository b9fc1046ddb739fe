package queue

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
)

// damaged makes a queue of many segments, the middle one with a frame damaged,
// which a checkpoint covers.
func damaged(t *testing.T) Options {
	opts := Options{Directory: t.TempDir(), SegmentBytes: 1}
	q := open(t, opts)
	storeNumbered(t, q, 1, 15, 3)
	await.Until(t, "checkpoint", func() bool {
		cp, ok := readCheckpoint(t, q.opts.Directory)
		return ok && cp.Epoch == 4
	})
	closeQueue(t, q)
	flip(t, segmentFiles(t, opts.Directory)[1], 4096+80+4)
	return opts
}

// Several sinks meet the same damage at once.
func TestSinksMeetDamageTogether(t *testing.T) {
	for range fewer(20) {
		q := open(t, damaged(t))
		var wg sync.WaitGroup
		for i := range 4 {
			c := cursorOf(t, q, fmt.Sprint(i))
			wg.Go(func() {
				for c.next <= 15 {
					if _, err := c.Next(t.Context(), Limits{Records: 3, Bytes: 1 << 20}); err != nil {
						t.Errorf("Next: %v", err)
						return
					}
				}
			})
		}
		wg.Wait()
		closeQueue(t, q)
		if t.Failed() {
			return
		}
	}
}

// Damage that could not be copied to quarantine holds nobody up, and is not
// deleted: its segment goes there as a whole.
func TestDamageIsKeptOnAFullDisk(t *testing.T) {
	fsys := &faultFS{FS: disk.OS("")}
	opts := damaged(t)
	opts.FS = fsys
	q := open(t, opts)
	c := cursorOf(t, q, "a")
	lim := Limits{Records: 3, Bytes: 1 << 20}
	_, err := c.Next(t.Context(), lim)
	must(t, err)
	fsys.set(func(op, name string) error {
		if op == "create" && strings.Contains(name, state.QuarantineDir) {
			return unix.ENOSPC
		}
		return nil
	})
	for c.next <= 15 {
		_, err = c.Next(t.Context(), lim)
		must(t, err)
	}
	must(t, c.Ack(15))
	var kept []os.DirEntry
	await.Until(t, "the damaged segment is in quarantine", func() bool {
		kept, _ = os.ReadDir(filepath.Join(opts.Directory, state.QuarantineDir))
		return len(kept) > 0
	})
	fsys.set(nil)
	if len(kept) != 1 || !strings.HasPrefix(kept[0].Name(), "00000000000000000004-") {
		t.Errorf("quarantine: got %v, want the damaged segment", kept)
	}
}

// What a failed commit left behind does not hide its successor's records.
func TestLeftoverOfAFailedCommitHidesNothing(t *testing.T) {
	fsys := &faultFS{FS: disk.OS("")}
	opts := Options{Directory: t.TempDir(), FS: fsys}
	q := open(t, opts)
	storeNumbered(t, q, 1, 2, 1)
	prepared(t, q)
	// Hold up a commit, so that the next two chunks share one, which fails.
	syncing, goOn := make(chan struct{}), make(chan struct{})
	var syncs atomic.Int32
	fsys.set(func(op, name string) error {
		if op == "sync" && isSegment(name) {
			switch syncs.Add(1) {
			case 1:
				close(syncing)
				<-goOn
			case 2:
				return errDisk
			}
		}
		return nil
	})
	must(t, q.Append(t.Context(), chunk(`{"n":3}`), nil))
	<-syncing
	for i := 4; i <= 5; i++ {
		must(t, q.Append(t.Context(), chunk(fmt.Sprintf(`{"n":%d}`, i)), nil))
	}
	close(goOn)
	await.Until(t, "durable", func() bool { return q.LastSeq() == 5 })
	storeNumbered(t, q, 6, 7, 1)
	closeQueue(t, q)
	seg := segmentFiles(t, opts.Directory)[0]
	at := offsets(t, seg)
	if len(at) != 6 {
		t.Fatalf("%d frames in the first segment", len(at)-1)
	}
	zero(t, seg, at[2], at[4]) // record 3, and the leftover of 4
	q = open(t, Options{Directory: opts.Directory})
	equal(t, "records", drain(t, q, cursorOf(t, q, "a")), slices.Concat(numbered(1, 2), numbered(4, 7)))
}

// The same damage, met by one sink in the middle of a frame and by another from its
// beginning, counts once.
func TestDamageMetMidFrameCountsOnce(t *testing.T) {
	opts := Options{Directory: t.TempDir(), SegmentBytes: 1}
	q := open(t, opts)
	a, b := cursorOf(t, q, "a"), cursorOf(t, q, "b")
	storeNumbered(t, q, 1, 12, 4)
	drain(t, q, a)
	must(t, a.Ack(2))
	_ = b
	await.Until(t, "checkpoint", func() bool {
		cp, ok := readCheckpoint(t, q.opts.Directory)
		return ok && cp.Epoch == 2
	})
	closeQueue(t, q)
	flip(t, segmentFiles(t, opts.Directory)[0], 4096+80+4)
	q = open(t, opts)
	a, b = cursorOf(t, q, "a"), cursorOf(t, q, "b")
	drain(t, q, a)
	drain(t, q, b)
	if got := q.Stats().Corrupt; got != 4 {
		t.Errorf("corrupt: got %d, want 4", got)
	}
}

// Damage that readers have met is remembered.
func TestCorruptSurvivesRestart(t *testing.T) {
	opts := damaged(t)
	q := open(t, opts)
	c := cursorOf(t, q, "a")
	drain(t, q, c)
	must(t, c.Ack(15))
	before := q.Stats().Corrupt
	closeQueue(t, q)
	q = open(t, opts)
	if got := q.Stats(); got.Corrupt != before {
		t.Errorf("corrupt: got %d after a restart, %d before; sink says %d", got.Corrupt, before, got.Cursors["a"].Corrupt)
	}
}

// EIO on one segment header.
func TestOneUnreadableBlockDoesNotStopOpen(t *testing.T) {
	opts := Options{Directory: t.TempDir(), SegmentBytes: 1}
	q := open(t, opts)
	storeNumbered(t, q, 1, 3, 1)
	closeQueue(t, q)
	opts.FS = &badBlockFS{FS: disk.OS(""), name: filepath.Base(segmentFiles(t, opts.Directory)[0])}
	q, err := Open(opts)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	closeQueue(t, q)
}

type badBlockFS struct {
	disk.FS
	name string
}
type badBlockFile struct{ disk.File }

func (f *badBlockFS) Open(name string) (disk.File, error) {
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

// Damage that a sink has passed without a copy stays known over a restart.
func TestDamageIsKeptAfterAFullDiskAndARestart(t *testing.T) {
	fsys := &faultFS{FS: disk.OS("")}
	opts := damaged(t)
	opts.FS = fsys
	q := open(t, opts)
	cursorOf(t, q, "slow")
	c := cursorOf(t, q, "a")
	fsys.set(func(op, name string) error {
		if op == "create" && strings.Contains(name, state.QuarantineDir) {
			return unix.ENOSPC
		}
		return nil
	})
	drain(t, q, c)
	must(t, c.Ack(15))
	closeQueue(t, q)

	fsys.set(nil)
	q = open(t, opts)
	q.Forget("slow")
	first := segmentFiles(t, opts.Directory)
	await.Until(t, "the delivered segments are gone", func() bool { return len(segmentFiles(t, opts.Directory)) == 1 })
	kept, _ := os.ReadDir(filepath.Join(opts.Directory, state.QuarantineDir))
	if len(kept) != 1 {
		t.Errorf("quarantine: got %v, want the damaged segment or a copy of its damage; segments were %v", kept, len(first))
	}
}
