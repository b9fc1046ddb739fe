package queue

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/disk/crashdisk"
)

// The process is killed between a write of the cursors file and its sync, and the
// next one at any moment after that, perhaps in the middle of a write; then the
// power goes. Of the two slots one must be whole: the one that was not synced, or
// the one that was.
func TestOneSlotIsAlwaysWhole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(3) {
			operations := 1
			for killWhileConfirming(t, seed, operations) {
				operations++
			}
		}
	})
}

// killWhileConfirming reports whether the process was killed, rather than done
// before that.
func killWhileConfirming(t *testing.T, seed uint64, operations int) (killed bool) {
	t.Helper()
	disk := crashdisk.New(rand.New(rand.NewPCG(seed, 1)))
	disk.Boot()
	opts := Options{Directory: "/q", SegmentBytes: 8 << 10, FS: disk.Process()}
	q := open(t, opts)
	cursorOf(t, q, "a")
	storeNumbered(t, q, 1, 3, 1)
	closeQueue(t, q)
	unsynced := writeCursorsWithoutSync(t, opts.FS, "a", Account{Next: 3, Delivered: 2})

	disk.Boot()
	steps := &crashdisk.Steps{}
	steps.Boot(disk.Process(), func() { killed = true })
	steps.SetPlan(func(n int, _, _ string) crashdisk.Fault {
		if n == operations {
			return crashdisk.Fault{Err: crashdisk.ErrKilled, Done: 0.5}
		}
		return crashdisk.Fault{}
	})
	opts.FS = steps
	if q, err := Open(opts); err == nil {
		time.Sleep(time.Second)       // the janitor has been there
		q.Close(context.Background()) // which cannot succeed when killed
	}
	disk.File("/q/" + state.CursorsFile).Lose(int(unsynced / crashdisk.PageBytes)) // this the power cut takes
	disk.PowerCut()

	disk.Boot()
	opts.FS = disk.Process()
	q = open(t, opts)
	if a, known := q.Stats().Cursors["a"]; !known || a.Next != 1 && a.Next != 3 {
		t.Fatalf("seed %d, killed after %d operations: got account %+v, known: %v; want one of the two that were written", seed, operations, a, known)
	}
	closeQueue(t, q)
	return killed
}

// writeCursorsWithoutSync leaves in the cursors file what a process leaves that
// is killed at the wrong moment, and returns where it stands.
func writeCursorsWithoutSync(t *testing.T, fsys disk.FS, sink string, a Account) (offset int64) {
	t.Helper()
	f, accounts, err := state.OpenCursorFile(fsys, "/q")
	must(t, err)
	accounts[sink] = a
	generation := f.Generation + 1
	offset = slotSize - int64(generation%2)*slotSize
	_, err = f.File.WriteAt(encodeSlot(f.Queue, generation, accounts), offset)
	must(t, err)
	return offset
}
