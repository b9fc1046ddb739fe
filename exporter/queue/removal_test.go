package queue

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk/crashdisk"
)

// The process is killed between a write of the cursors file and its sync. The next
// one reads from the page cache what a power cut can still take, so it must not
// remove segments by it.
func TestCursorsFoundAreConfirmedBeforeSegmentsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := crashdisk.New(rand.New(rand.NewPCG(1, 1)))
		disk.Boot()
		opts := Options{Directory: "/q", SegmentBytes: 1, FS: disk.Process()}
		q := open(t, opts)
		cursorOf(t, q, "a")
		storeNumbered(t, q, 1, 3, 1) // a segment each
		closeQueue(t, q)

		file, accounts, err := state.OpenCursorFile(opts.FS, "/q")
		must(t, err)
		accounts["a"] = Account{Next: 3, Delivered: 2}
		_, err = file.File.WriteAt(encodeSlot(file.Queue, file.Generation+1, accounts), 0)
		must(t, err)

		q = open(t, opts)
		time.Sleep(time.Second) // the janitor has been there
		closeQueue(t, q)
		disk.File("/q/cursors").Lose() // the power cut takes what was not synced
		disk.PowerCut()

		q = open(t, opts)
		c := cursorOf(t, q, "a")
		if a := c.Account(); a.Next != 3 && a.Next != 1 {
			t.Errorf("account: got %+v", a)
		}
		got := drain(t, q, c)
		if len(got) == 0 || got[len(got)-1] != numbered(3, 3)[0] {
			t.Errorf("records: got %v", got)
		}
		if n := q.Stats().Corrupt; n != 0 {
			t.Errorf("corrupt: got %d, want 0: nothing was damaged", n)
		}
	})
}

// A removed segment comes back after a crash, one behind it does not.
func TestSegmentThatComesBackIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := crashdisk.New(rand.New(rand.NewPCG(1, 1)))
		disk.Boot()
		opts := Options{Directory: "/q", SegmentBytes: 1, FS: disk.Process()}
		q := open(t, opts)
		c := cursorOf(t, q, "a")
		storeNumbered(t, q, 1, 3, 1)
		name := "/q/" + (*q.segments.Load())[0].String()
		inode := disk.File(name)
		drain(t, q, c)
		must(t, c.Ack(2))
		time.Sleep(time.Second)
		closeQueue(t, q)
		if disk.File(name) != nil {
			t.Fatal("segment is still there")
		}
		disk.Restore(name, inode)
		q = open(t, opts)
		drain(t, q, cursorOf(t, q, "new"))
		if n := q.Stats().Corrupt; n != 0 {
			t.Errorf("corrupt: got %d, want 0: nothing was damaged", n)
		}
	})
}
