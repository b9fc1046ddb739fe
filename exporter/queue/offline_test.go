package queue

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/exporter/queue/inspect"
	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
)

// offline opens the queue of opts offline and closes it at the end of the test,
// unless closed before.
func offline(t *testing.T, opts Options) *inspect.Queue {
	t.Helper()
	o, err := inspect.Open(opts.Directory, opts.FS)
	must(t, err)
	t.Cleanup(func() { must(t, o.Close()) })
	return o
}

// findings returns what Check finds.
func findings(t *testing.T, o *inspect.Queue) (all []inspect.Finding) {
	t.Helper()
	_, err := o.Check(t.Context(), func(f inspect.Finding) error {
		all = append(all, f)
		return nil
	})
	must(t, err)
	return all
}

// summary is what matters of findings, one in a line: severity, kind and what is
// lost.
func summary(all []inspect.Finding) []string {
	var lines []string
	for _, f := range all {
		line := fmt.Sprintf("%s %s", f.Severity, f.Kind)
		if f.Lost.Size() > 0 {
			line += " " + f.Lost.String()
		}
		lines = append(lines, line)
	}
	return lines
}

// readAll returns "seq:data" of all records that can be read offline.
func readAll(t *testing.T, o *inspect.Queue, r segment.SeqRange) (got []string) {
	t.Helper()
	err := o.Read(t.Context(), r, func(r Record) error {
		got = append(got, fmt.Sprintf("%d:%s", r.Seq, r.Data))
		return nil
	}, func(inspect.Finding) error { return nil })
	must(t, err)
	return got
}

var everything = segment.SeqRange{From: 1, To: 1 << 62}

// Check finds the damage, changes nothing, and says what Open makes of it: what can be read is
// delivered, what cannot is counted and kept, and nothing of it is news the next time.
func TestDamageIsFoundDeliveredAroundAndKept(t *testing.T) {
	t.Parallel()
	for name, tt := range offlineDamage {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts, first, last := stored(t, tt.withB)
			if tt.damage != nil {
				tt.damage(t, opts.Directory, first, last)
			}
			before := filesIn(t, opts.Directory)
			o := offline(t, opts)
			all := findings(t, o)
			equal(t, "findings", summary(all), tt.want)
			readable := readAll(t, o, everything)
			checkProgress(t, o)
			_, err := o.Contents(t.Context())
			must(t, err)
			must(t, o.Close())
			if !maps.Equal(filesIn(t, opts.Directory), before) {
				t.Error("looking has changed files")
			}
			var lost uint64
			unread := map[string]string{}
			for _, f := range all {
				if f.Severity == inspect.Note {
					continue
				}
				lost += f.Lost.Size()
				if f.Offset < f.End {
					unread[f.String()] = before[filepath.Join(opts.Directory, f.File)][f.Offset:f.End]
				}
			}

			q := open(t, opts)
			c := cursorOf(t, q, "new")
			next := int(q.LastSeq()) + 1
			storeNumbered(t, q, next, next, 1)
			readable = append(readable, numbered(next, next)...)
			equal(t, "delivered", drain(t, q, c), readable)
			for _, known := range q.Stats().Parked { // which miss what stood before the first kept segment
				drain(t, q, cursorOf(t, q, known))
			}
			if got := q.Stats().Corrupt; got != lost {
				t.Errorf("corrupt: got %d, want %d", got, lost)
			}
			must(t, c.Ack(q.LastSeq()))
			if a := c.Account(); a.Delivered != uint64(len(readable)) || a.Next != q.LastSeq()+1 {
				t.Errorf("account: got %+v, want %d delivered and nothing pending", a, len(readable))
			}
			closeQueue(t, q)
			for _, f := range findings(t, offline(t, opts)) {
				if f.Severity == inspect.Damage {
					t.Errorf("damage that was met is news: %s", f)
				}
			}
			kept := strings.Join(slices.Collect(maps.Values(filesIn(t, opts.Directory))), "")
			for what, b := range unread {
				if !strings.Contains(kept, b) {
					t.Errorf("%s: the bytes are gone", what)
				}
			}
		})
	}
}

// A segment with damage moves to quarantine as a whole once every sink has passed it: also if
// docket was closed or killed meanwhile, and if no record was lost.
func TestDamagedSegmentMovesToQuarantine(t *testing.T) {
	for name, tt := range map[string]struct {
		damage func(t *testing.T, path string)
		end    func(*testing.T, *Queue) // nil: docket goes on
		lost   uint64
	}{
		"a record":                  {damage: func(t *testing.T, path string) { flip(t, path, offsets(t, path)[2]-4) }, lost: 1},
		"a record, then a restart":  {damage: func(t *testing.T, path string) { flip(t, path, offsets(t, path)[2]-4) }, end: closeQueue, lost: 1},
		"a refusal, then a restart": {damage: func(t *testing.T, path string) { flip(t, path, offsets(t, path)[1]-4) }, end: closeQueue},
		"the header, then a kill":   {damage: func(t *testing.T, path string) { flip(t, path, 20) }, end: killed},
	} {
		t.Run(name, func(t *testing.T) {
			opts := Options{Directory: t.TempDir(), SegmentBytes: 8 << 10}
			q := open(t, opts)
			cursorOf(t, q, "slow")
			store(t, q, &Chunk{Source: "test", Received: time.Now(), Refused: []Tally{{Name: "InvalidJSON", Count: 1}}})
			storeNumbered(t, q, 1, 3, 1)
			store(t, q, chunk(strings.Repeat("x", 5000))) // begins the next segment
			closeQueue(t, q)
			path := segmentFiles(t, opts.Directory)[0]
			tt.damage(t, path)
			want, err := os.ReadFile(path)
			must(t, err)

			fsys := &faultFS{FS: disk.OS("")}
			fsys.set(func(op, name string) error {
				if op != "sync" || filepath.Base(name) != state.CursorsFile {
					return nil
				}
				found, err := state.Look(disk.OS(""), opts.Directory)
				must(t, err)
				if found.Accounts["a"].Corrupt > 0 && len(found.Checkpoint.Damaged) == 0 {
					t.Error("an account has passed damage that no checkpoint has")
				}
				return found.Cursors.File.Close()
			})
			opts.FS = fsys
			q = open(t, opts)
			c := cursorOf(t, q, "a")
			drain(t, q, c)
			must(t, c.Ack(4))
			must(t, c.Save(t.Context()))
			if tt.end != nil {
				tt.end(t, q)
				q = open(t, opts)
			}
			q.Forget("slow")
			await.Until(t, "the segment is gone", func() bool { _, err := os.Stat(path); return errors.Is(err, os.ErrNotExist) })
			kept := files(t, opts.Directory, filepath.Join(state.QuarantineDir, filepath.Base(path)+".*"))
			if len(kept) != 1 {
				t.Fatalf("quarantine: got %q, want the segment", kept)
			}
			if got, err := os.ReadFile(kept[0]); err != nil || !bytes.Equal(got, want) {
				t.Errorf("the segment in quarantine has changed (%v)", err)
			}
			if got := q.Stats(); got.Corrupt != tt.lost || got.Cursors["a"].Corrupt != tt.lost {
				t.Errorf("corrupt: got %d, of the sink %d, want %d", got.Corrupt, got.Cursors["a"].Corrupt, tt.lost)
			}
		})
	}
}

// The move to quarantine is tried again after an error behind the rename, and what is delivered
// goes on being removed.
func TestMoveToQuarantineThatFailsBehindTheRename(t *testing.T) {
	opts := Options{Directory: t.TempDir(), SegmentBytes: 8 << 10}
	q := open(t, opts)
	storeNumbered(t, q, 1, 3, 1)
	store(t, q, chunk(strings.Repeat("x", 5000))) // begins the next segment
	closeQueue(t, q)
	path := segmentFiles(t, opts.Directory)[0]
	flip(t, path, offsets(t, path)[2]-4)

	var failed atomic.Bool
	fsys := &faultFS{FS: disk.OS("")}
	fsys.set(func(op, name string) error {
		if op == "syncdir" && filepath.Base(name) == state.QuarantineDir && !failed.Swap(true) {
			return errDisk
		}
		return nil
	})
	opts.FS = fsys
	q = open(t, opts)
	c := cursorOf(t, q, "a")
	drain(t, q, c)
	must(t, c.Ack(4))
	await.Until(t, "the move has failed", failed.Load)
	store(t, q, chunk(strings.Repeat("x", 5000)))
	store(t, q, chunk(strings.Repeat("x", 5000)))
	drain(t, q, c)
	must(t, c.Ack(6))
	await.Until(t, "the other segments are gone", func() bool { return len(segmentFiles(t, opts.Directory)) == 1 })
	if kept := files(t, opts.Directory, filepath.Join(state.QuarantineDir, filepath.Base(path)+".*")); len(kept) != 1 {
		t.Errorf("quarantine: got %q, want the segment", kept)
	}
}

// Damage that is met while a checkpoint is written is in the next one, also if it only makes a
// range larger that is in this one.
func TestDamageMetDuringACheckpoint(t *testing.T) {
	fsys := &faultFS{FS: disk.OS("")}
	q := open(t, Options{Directory: t.TempDir(), FS: fsys})
	storeNumbered(t, q, 1, 9, 1)
	must(t, cursorOf(t, q, "a").Save(t.Context()))
	var once sync.Once
	fsys.set(func(op, name string) error {
		if op == "sync" && filepath.Base(name) == state.PositionsFile+disk.NewSuffix {
			once.Do(func() { q.reportLost(segment.SeqRange{From: 5, To: 6}) })
		}
		return nil
	})
	q.reportLost(segment.SeqRange{From: 4, To: 5})
	await.Until(t, "all that is lost is durable", func() bool {
		found, err := state.Look(disk.OS(""), q.opts.Directory)
		must(t, err)
		must(t, found.Cursors.File.Close())
		return slices.Equal(found.Checkpoint.Lost, []segment.SeqRange{{From: 4, To: 6}})
	})
}

// Damage that a checkpoint could not hold because the disk failed is in the next one, although
// nothing else has come up since.
func TestDamageOutlivesAFailedCheckpoint(t *testing.T) {
	fsys := &faultFS{FS: disk.OS("")}
	q := open(t, Options{Directory: t.TempDir(), FS: fsys})
	storeNumbered(t, q, 1, 9, 1)
	c := cursorOf(t, q, "a")
	must(t, c.Save(t.Context()))
	var once sync.Once
	fsys.set(func(op, name string) (err error) {
		if op == "sync" && filepath.Base(name) == state.PositionsFile+disk.NewSuffix {
			once.Do(func() { err = errDisk })
		}
		return err
	})
	q.reportLost(segment.SeqRange{From: 4, To: 6})
	must(t, c.Save(t.Context())) // a round of the janitor, in which the checkpoint fails
	must(t, c.Save(t.Context())) // and the next
	found, err := state.Look(disk.OS(""), q.opts.Directory)
	must(t, err)
	must(t, found.Cursors.File.Close())
	if want := []segment.SeqRange{{From: 4, To: 6}}; !slices.Equal(found.Checkpoint.Lost, want) {
		t.Errorf("the checkpoint says that %v are lost, want %v", found.Checkpoint.Lost, want)
	}
}

// checkProgress wants a pass to say how far it is: from less than all to all, and never back.
func checkProgress(t *testing.T, o *inspect.Queue) {
	t.Helper()
	var last, records int64
	look := func() {
		done, total := o.Progress()
		if done < last || done > total || records == 0 && done == total {
			t.Errorf("after %d records: got %d of %d bytes read, want no less than %d", records, done, total, last)
		}
		last = done
	}
	err := o.Read(t.Context(), everything, func(Record) error {
		look()
		records++
		return nil
	}, func(inspect.Finding) error { return nil })
	must(t, err)
	if done, total := o.Progress(); done != total || records > 0 && total == 0 {
		t.Errorf("at the end: got %d of %d bytes read", done, total)
	}
}

// Segments that every sink has passed are removed, and a crash can bring the
// first of them back.
func TestCheckOfARemovedSegmentThatIsBack(t *testing.T) {
	opts := Options{Directory: t.TempDir(), SegmentBytes: 1}
	q := open(t, opts)
	c := cursorOf(t, q, "a")
	storeNumbered(t, q, 1, 12, 3)
	drain(t, q, c)
	path := segmentFiles(t, opts.Directory)[0]
	back, err := os.ReadFile(path)
	must(t, err)
	must(t, c.Ack(9))
	await.Until(t, "the removal of three segments", func() bool { return len(segmentFiles(t, opts.Directory)) == 1 })
	closeQueue(t, q)
	o := offline(t, opts)
	equal(t, "findings", summary(findings(t, o)), nil)
	must(t, o.Close())
	put(t, path, 0, back)
	o = offline(t, opts)
	all := findings(t, o)
	must(t, o.Close())
	if len(all) != 1 || all[0].Severity != inspect.Note || all[0].Lost != (segment.SeqRange{From: 4, To: 10}) {
		t.Errorf("got %v, want a note that records 4 to 9 are no longer kept", all)
	}
	must(t, os.Remove(filepath.Join(opts.Directory, state.PositionsFile)))
	must(t, os.Remove(path))
	equal(t, "findings without positions", summary(findings(t, offline(t, opts))), []string{"damage MissingPositions"})
}

// errOpenFS fails to open one file.
type errOpenFS struct {
	disk.FS
	name string
}

func (f errOpenFS) Open(name string) (disk.File, error) {
	if filepath.Base(name) == f.name {
		return nil, unix.EIO
	}
	return f.FS.Open(name)
}

func TestCheckOfUnreadableFiles(t *testing.T) {
	opts, first, last := stored(t, true)
	for _, name := range []string{state.CursorsFile, state.PositionsFile, filepath.Base(first.path), filepath.Base(last.path)} {
		o, err := inspect.Open(opts.Directory, errOpenFS{disk.OS(""), name})
		must(t, err)
		all := findings(t, o)
		if !slices.ContainsFunc(all, func(f inspect.Finding) bool {
			return f.Severity == inspect.Damage && f.Kind == inspect.UnreadableFile && f.File == name
		}) || len(all) > 2 {
			t.Errorf("%s: got %v, want that it cannot be read", name, all)
		}
		must(t, o.Close())
	}
}

func TestOpenOfflineFails(t *testing.T) {
	live, _, _ := stored(t, false)
	offline(t, live) // holds the lock as an exporter does, and changes nothing meanwhile
	empty := t.TempDir()
	put(t, filepath.Join(empty, "notes.txt"), 0, []byte("mine"))
	for name, tt := range map[string]struct {
		dir  string
		want func(error) bool
		text string
	}{
		"in use":       {live.Directory, func(err error) bool { _, ok := errors.AsType[*state.InUseError](err); return ok }, fmt.Sprintf("in use by process %d", os.Getpid())},
		"no directory": {filepath.Join(empty, "none"), func(err error) bool { return errors.Is(err, inspect.ErrNoQueue) }, "no such directory"},
		"no queue":     {empty, func(err error) bool { return errors.Is(err, inspect.ErrNoQueue) }, "neither segments nor cursors"},
	} {
		t.Run(name, func(t *testing.T) {
			before, _ := os.ReadDir(tt.dir)
			o, err := inspect.Open(tt.dir, nil)
			if err == nil {
				o.Close()
			}
			if err == nil || !tt.want(err) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("got %v, want an error with %q", err, tt.text)
			}
			if after, _ := os.ReadDir(tt.dir); len(after) != len(before) {
				t.Errorf("got %d files, want %d as before", len(after), len(before))
			}
		})
	}
}

func TestNoExporterStartsWhileSomebodyLooks(t *testing.T) {
	opts, _, _ := stored(t, false)
	o := offline(t, opts)
	q, err := Open(opts)
	if _, ok := errors.AsType[*state.InUseError](err); !ok {
		t.Errorf("got %v, want *state.InUseError", err)
	}
	if err == nil {
		closeQueue(t, q)
	}
	must(t, o.Close())
	open(t, opts)
}

func TestContents(t *testing.T) {
	opts, first, last := stored(t, true)
	c, err := offline(t, opts).Contents(t.Context())
	must(t, err)
	if c.FirstSeq != 1 || c.LastSeq != 8 || len(c.Segments) != 2 || c.Sinks["a"].Next != 3 || c.Sinks["b"].Next != 9 {
		t.Fatalf("got %+v, want records 1 to 8 in two segments, sinks at 3 and 9", c)
	}
	for i, want := range []struct {
		first, last uint64
		bytes       int64
	}{{1, 4, first.at[4]}, {5, 8, last.at[4]}} {
		s := c.Segments[i]
		if s.FirstSeq != want.first || s.LastSeq != want.last || s.Bytes != want.bytes || s.Error != "" || s.Oldest.IsZero() || s.Newest.Before(s.Oldest) {
			t.Errorf("segment %d: got %+v, want records %d to %d in %d bytes", i, s, want.first, want.last, want.bytes)
		}
	}
	if c.Positions == nil || c.Positions.Sources["test"].Stored != c.Positions.LastSeq {
		t.Errorf("positions: got %+v, want as many records of the source as it covers", c.Positions)
	}
}

// The last frame of a segment is found however long it is.
func TestContentsOfLongFrames(t *testing.T) {
	const probe = 256 << 10 // of a segment's end
	opts := Options{Directory: t.TempDir(), SegmentBytes: 8 * probe}
	q := open(t, opts)
	long := `"` + strings.Repeat("x", 3*probe) + `"`
	store(t, q, chunk("1", "2"))
	store(t, q, chunk("3", long))
	store(t, q, chunk("5", long, long))
	closeQueue(t, q)
	c, err := offline(t, opts).Contents(t.Context())
	must(t, err)
	if len(c.Segments) != 2 || c.Segments[0].LastSeq != 4 || c.Segments[0].Records != 4 {
		t.Errorf("got %+v, want records 1 to 4 in the first of two segments", c.Segments)
	}
}

// A copy without a lock file gets none by looking at it.
func TestLookingTakesOnlyALockThatIsThere(t *testing.T) {
	opts, _, _ := stored(t, false)
	path := filepath.Join(opts.Directory, state.LockFile)
	must(t, os.Remove(path))
	findings(t, offline(t, opts))
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got a lock file (%v), want none", err)
	}
}
