package queue

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
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

// A sink comes while the janitor writes the cursors by which it will remove segments: what the sink
// begins with stays.
func TestNewSinkDuringARemoval(t *testing.T) {
	fsys := &faultFS{FS: disk.OS("")}
	q := open(t, Options{Directory: t.TempDir(), SegmentBytes: 1, FS: fsys})
	c := cursorOf(t, q, "a")
	storeNumbered(t, q, 1, 9, 1) // a segment each
	drain(t, q, c)
	must(t, c.Save(t.Context())) // the file cursors is there
	var once sync.Once
	var late *Cursor
	fsys.set(func(op, name string) error {
		if op == "sync" && filepath.Base(name) == state.CursorsFile {
			once.Do(func() { late = cursorOf(t, q, "late") })
		}
		return nil
	})
	must(t, c.Ack(9))
	must(t, c.Save(t.Context()))
	must(t, c.Save(t.Context())) // the round of that removal is over
	if late == nil {
		t.Fatal("the file cursors was not written")
	}
	equal(t, "records of the new sink", drain(t, q, late), numbered(1, 9))
}

// A segment that could not be opened has no reader: its space is free once it is removed.
func TestSegmentThatFailedToOpenLeavesItsSpace(t *testing.T) {
	fsys := &failingOpenFS{FS: disk.OS("")}
	q := open(t, Options{Directory: t.TempDir(), SegmentBytes: 1, FS: fsys})
	c := cursorOf(t, q, "a")
	storeNumbered(t, q, 1, 3, 1) // a segment each
	fsys.fails.Store(true)
	if records, err := c.Next(t.Context(), Limits{Records: 1, Bytes: 1}); !errors.Is(err, errDisk) {
		t.Fatalf("Next: got %d records and error %v, want %v", len(records), err, errDisk)
	}
	fsys.fails.Store(false)
	equal(t, "records", drain(t, q, c), numbered(1, 3))
	c.Close()
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, s := range *q.segments.Load() {
		if s.readers != 0 {
			t.Errorf("segment %s: got %d readers, want none", s, s.readers)
		}
	}
}

// failingOpenFS fails to open segments.
type failingOpenFS struct {
	disk.FS
	fails atomic.Bool
}

func (f *failingOpenFS) Open(name string) (disk.File, error) {
	if f.fails.Load() && isSegment(name) {
		return nil, errDisk
	}
	return f.FS.Open(name)
}
