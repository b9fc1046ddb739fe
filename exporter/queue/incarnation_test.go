package queue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/disk/crashdisk"
)

// givenIDs are the records that were seen, by id, and the ids by record.
type givenIDs map[string]string

// give notes the id of r. No other record may have it, and r no other one.
func (g givenIDs) give(r *Record) error {
	id := string(r.AppendID(nil))
	if uuid.Validate(r.Incarnation) != nil {
		return fmt.Errorf("record %d has the id %q", r.Seq, id)
	}
	record := fmt.Sprintf("%d %s", r.Seq, r.Data)
	if before, ok := g[id]; ok && before != record {
		return fmt.Errorf("id %s is given to %.40q, and was that of %.40q", id, record, before)
	}
	if before, ok := g[record]; ok && before != id {
		return fmt.Errorf("record %.40q has the id %s, and had %s", record, id, before)
	}
	g[id], g[record] = record, id
	return nil
}

// idsOf reads all that c has not returned, and returns the ids.
func idsOf(t *testing.T, q *Queue, c *Cursor) (ids []string) {
	t.Helper()
	for c.next <= q.LastSeq() {
		batch, err := c.Next(t.Context(), Limits{Records: 100, Bytes: 1 << 20})
		must(t, err)
		for i := range batch {
			if batch[i].Incarnation != batch[0].Incarnation {
				t.Errorf("a batch has records of two incarnations: %v", batch)
			}
			ids = append(ids, string(batch[i].AppendID(nil)))
		}
	}
	return ids
}

// copied returns the options for a copy of the directory of opts.
func copied(t *testing.T, opts Options) Options {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "copy")
	must(t, os.CopyFS(dir, os.DirFS(opts.Directory)))
	opts.Directory = dir
	return opts
}

// A copy of a queue, one that is set back to it, and the original give different ids to what they
// store from there on, and the same to what they have in common.
func TestCopiesGiveOtherIDs(t *testing.T) {
	opts := Options{Directory: t.TempDir()}
	q := open(t, opts)
	storeNumbered(t, q, 1, 5, 2)
	closeQueue(t, q)
	others := []Options{copied(t, opts), copied(t, opts), opts}
	ids := givenIDs{}
	var first *Queue
	for n, o := range others {
		q := open(t, o)
		if n == 0 {
			first = q
		}
		for seq := 6; seq <= 9; seq++ {
			store(t, q, chunk(fmt.Sprintf(`{"n":%d,"copy":%d}`, seq, n)))
		}
		c := cursorOf(t, q, "a")
		for c.next <= q.LastSeq() {
			batch, err := c.Next(t.Context(), Limits{Records: 100, Bytes: 1 << 20})
			must(t, err)
			for i := range batch {
				must(t, ids.give(&batch[i]))
			}
		}
		if through, known := q.Lineage().Through(first.Lineage(), 10); n > 0 && (through != 5 || !known) {
			t.Errorf("copy %d has records up to %d in common with the first, %v, want 5", n, through, known)
		}
	}
	if got, want := len(ids), 2*(5+3*4); got != want {
		t.Errorf("got %d ids, want %d", got/2, want/2)
	}
}

// The log has lost its end, as a disk that lies about a sync leaves it, or somebody who removes a
// segment: the seqs are given again, and the ids are not.
func TestLostEndGivesOtherIDs(t *testing.T) {
	for name, lose := range map[string]func(t *testing.T, disk, before *crashdisk.Disk) *crashdisk.Disk{
		"the disk has forgotten everything since": func(_ *testing.T, _, before *crashdisk.Disk) *crashdisk.Disk { return before },
		"a segment is removed": func(t *testing.T, disk, before *crashdisk.Disk) *crashdisk.Disk {
			names := disk.Names()
			names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, ".segment") })
			must(t, disk.Process().Remove(names[len(names)-1]))
			for _, name := range []string{"/q/" + state.CursorsFile, "/q/" + state.PositionsFile} { // which knew of it
				disk.Restore(name, before.File(name))
			}
			return disk
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := crashdisk.New(rand.New(rand.NewPCG(1, 2)))
				boot := func() *Queue {
					disk.Boot()
					q, err := Open(Options{Directory: "/q", SegmentBytes: 16 << 10, FS: disk.Process()})
					must(t, err)
					return q
				}
				end := func(q *Queue) {
					time.Sleep(time.Second)
					synctest.Wait()
					must(t, q.Close(context.Background()))
				}
				ids := givenIDs{}
				deliver := func(q *Queue, c *Cursor, from int, what string) {
					for n := from; n < from+4; n++ {
						must(t, q.Append(t.Context(), chunk(fmt.Sprintf(`{"n":%d,"what":%q}`, n, what)), nil))
					}
					synctest.Wait()
					for c.next <= q.LastSeq() {
						batch, err := c.Next(t.Context(), Limits{Records: 100, Bytes: 1 << 20})
						must(t, err)
						for i := range batch {
							must(t, ids.give(&batch[i]))
						}
					}
				}
				q := boot()
				deliver(q, cursorOf(t, q, "a"), 1, "kept")
				end(q)
				before := disk.Clone(rand.New(rand.NewPCG(3, 4)), func(string) bool { return false })

				q = boot()
				deliver(q, cursorOf(t, q, "a"), 5, "lost")
				end(q)
				disk = lose(t, disk, before)

				q = boot()
				if q.LastSeq() != 4 {
					t.Fatalf("the log ends at %d, want 4", q.LastSeq())
				}
				deliver(q, cursorOf(t, q, "a"), 5, "new")
				end(q)
				if got, want := len(ids)/2, 4+4+4; got != want {
					t.Errorf("got %d ids, want %d", got, want)
				}
			})
		})
	}
}

// Records behind a damaged header have ids of their own, where no checkpoint tells which they had:
// the same at every start, and no other incarnation's.
func TestIDsBehindADamagedHeader(t *testing.T) {
	opts := Options{Directory: t.TempDir()}
	q := open(t, opts)
	storeNumbered(t, q, 1, 3, 1)
	closeQueue(t, q)
	q = open(t, opts)
	storeNumbered(t, q, 4, 6, 1)
	want := idsOf(t, q, cursorOf(t, q, "a"))
	before := filepath.Join(t.TempDir(), state.PositionsFile)
	must(t, os.Link(filepath.Join(opts.Directory, state.PositionsFile), before)) // replaced, not changed, when the queue is closed
	closeQueue(t, q)
	flip(t, segmentFiles(t, opts.Directory)[1], 85)

	q = open(t, opts)
	if got := idsOf(t, q, cursorOf(t, q, "b")); !slices.Equal(got, want) {
		t.Errorf("with a checkpoint: got %v, want %v", got, want)
	}
	closeQueue(t, q)

	must(t, os.Remove(filepath.Join(opts.Directory, state.PositionsFile)))
	must(t, os.Rename(before, filepath.Join(opts.Directory, state.PositionsFile)))
	var got []string
	for n := range 3 {
		q = open(t, opts)
		ids := idsOf(t, q, cursorOf(t, q, fmt.Sprint("c", n)))
		if n > 0 && !slices.Equal(ids, got) || !slices.Equal(ids[:3], want[:3]) || slices.Contains(want, ids[3]) {
			t.Errorf("start %d: got %v, want %v and three others, before %v", n, ids, want[:3], got)
		}
		got = ids
		closeQueue(t, q)
	}
}

// A start that could not write the end of the log again, and stored nothing, has left a checkpoint.
// The end is lost, and the next start stores other records there: they keep their ids.
func TestStartThatStoredNothingHasNoRecords(t *testing.T) {
	copyOf := func(dir string) (copied string) {
		await.Until(t, "nothing changes during the copy", func() bool {
			copied = filepath.Join(t.TempDir(), "copy")
			return os.CopyFS(copied, os.DirFS(dir)) == nil
		})
		return copied
	}
	dir := t.TempDir()
	q := open(t, Options{Directory: dir})
	storeNumbered(t, q, 1, 3, 1)
	killed(t, q)

	fsys := &faultFS{FS: disk.OS("")}
	fsys.set(failing("sync", func() bool { return true }))
	open(t, Options{Directory: dir, FS: fsys})
	await.Until(t, "there is a checkpoint in front of the end", func() bool {
		found, err := state.Look(disk.OS(""), dir)
		must(t, err)
		if found.Cursors != nil {
			must(t, found.Cursors.File.Close())
		}
		return found.Checkpoint.NextSeq == 3
	})
	dir = copyOf(dir)
	fsys.set(nil)
	seg := segmentFiles(t, dir)[0]
	at := offsets(t, seg)
	zero(t, seg, at[2], at[3])

	fsys = &faultFS{FS: disk.OS("")}
	fsys.set(func(op, name string) error {
		if op == "create" && filepath.Base(name) == state.PositionsFile+disk.NewSuffix {
			return errDisk
		}
		return nil
	})
	q, err := Open(Options{Directory: dir, FS: fsys, SegmentBytes: minSegmentBytes})
	must(t, err)
	storeNumbered(t, q, 3, 6, 1)
	want := idsOf(t, q, cursorOf(t, q, "a"))
	last := copyOf(dir)
	_ = q.Close(t.Context()) // which cannot write its checkpoint
	q = open(t, Options{Directory: last})
	equal(t, "ids", idsOf(t, q, cursorOf(t, q, "b")), want)
}
