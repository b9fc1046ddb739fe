package queue

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/exporter/queue/inspect"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
)

// planned returns the findings that Repair deals with.
func planned(all []inspect.Finding) []inspect.Finding {
	return slices.DeleteFunc(slices.Clone(all), func(f inspect.Finding) bool { return f.Repair == "" })
}

// After a repair there is nothing left to do, every record that could be read
// before is delivered, every one that could not is counted, and no byte that could
// not be read is gone.
func TestRepair(t *testing.T) {
	t.Parallel()
	for name, tt := range offlineDamage {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts, first, last := stored(t, tt.withB)
			if tt.damage != nil {
				tt.damage(t, opts.Directory, first, last)
			}
			o := offline(t, opts)
			all := findings(t, o)
			plan := planned(all)
			readable := readAll(t, o, everything)
			unread := unreadableBytes(t, opts, all)
			if len(plan) > 0 {
				must(t, o.Repair(t.Context(), plan, reopening(opts)))
				equal(t, "after the repair", summary(findings(t, o)), tt.after)
				equal(t, "records after the repair", readAll(t, o, everything), readable)
			}
			must(t, o.Close())
			for what, b := range unread {
				if !isKept(t, opts.Directory, b) {
					t.Errorf("%s: the bytes are gone, want them in %s", what, state.QuarantineDir)
				}
			}
			q := open(t, opts)
			c := cursorOf(t, q, "new")
			next := int(q.LastSeq()) + 1
			storeNumbered(t, q, next, next, 1)
			readable = append(readable, numbered(next, next)...)
			equal(t, "delivered after the repair", drain(t, q, c), readable)
			if got, want := q.Stats().Corrupt, lostOf(all); got != want {
				t.Errorf("corrupt: got %d, want %d", got, want)
			}
			must(t, c.Ack(q.LastSeq()))
			if a := c.Account(); a.Delivered != uint64(len(readable)) || a.Next != q.LastSeq()+1 {
				t.Errorf("account: got %+v, want %d delivered and nothing pending", a, len(readable))
			}
		})
	}
}

// lostOf is how many records are lost by all.
func lostOf(all []inspect.Finding) (n uint64) {
	for _, f := range all {
		if f.Severity != inspect.Note {
			n += f.Lost.Size()
		}
	}
	return n
}

// unreadableBytes are the bytes of the damage that all is about.
func unreadableBytes(t *testing.T, opts Options, all []inspect.Finding) map[string][]byte {
	t.Helper()
	bytes := map[string][]byte{}
	for _, f := range planned(all) {
		if f.Offset >= f.End {
			continue
		}
		b, err := os.ReadFile(filepath.Join(opts.Directory, f.File))
		must(t, err)
		bytes[f.String()] = b[f.Offset:f.End]
	}
	return bytes
}

// isKept reports whether a file in quarantine has the content b.
func isKept(t *testing.T, dir string, b []byte) bool {
	t.Helper()
	files, _ := os.ReadDir(filepath.Join(dir, state.QuarantineDir))
	return slices.ContainsFunc(files, func(e os.DirEntry) bool {
		content, err := os.ReadFile(filepath.Join(dir, state.QuarantineDir, e.Name()))
		must(t, err)
		return string(content) == string(b)
	})
}

// A second repair finds nothing to do, and looks at nothing but what a check does.
func TestRepairTwice(t *testing.T) {
	opts, first, _ := stored(t, true)
	flip(t, first.path, first.at[2]-4)
	flip(t, filepath.Join(opts.Directory, state.CursorsFile), 20)
	o := offline(t, opts)
	account, _ := o.Sink("b") // of the slot that is whole: which one it is depends on the janitor
	must(t, o.Repair(t.Context(), planned(findings(t, o)), reopening(opts)))
	before := snapshotDir(t, opts.Directory)
	if plan := planned(findings(t, o)); len(plan) > 0 {
		t.Errorf("got a second plan %v, want none", plan)
	}
	equal(t, "files", snapshotDir(t, opts.Directory), before)
	if a, _ := o.Sink("b"); a != account {
		t.Errorf("account of b: got %+v, want it as before: %+v", a, account)
	}
}

// A repair keeps the records that every sink is done with.
func TestRepairKeepsWhatIsDone(t *testing.T) {
	opts, _ := retained(t)
	s := fileOf(t, segmentFiles(t, opts.Directory)[1])
	flip(t, s.path, s.at[1]-4)
	o := offline(t, opts)
	opts.Retain = Retain{}
	must(t, o.Repair(t.Context(), planned(findings(t, o)), reopening(opts)))
	equal(t, "records", readAll(t, o, everything), slices.Concat(numbered(1, 3), numbered(7, 12)))
	equal(t, "findings", summary(findings(t, o)), []string{"known DamagedFrames records 4 to 6"})
}

// The spares of a queue are kept by a repair that knows nothing of its
// configuration, and no larger file is made.
func TestRepairKeepsTheSizeOfSegments(t *testing.T) {
	opts, first, _ := stored(t, false)
	flip(t, first.path, first.at[2]-4)
	for _, spare := range []string{"spare.90", "spare.91", "spare.92"} { // opening the queue takes up to two
		put(t, filepath.Join(opts.Directory, spare), 0, make([]byte, opts.SegmentBytes))
	}
	o := offline(t, opts)
	must(t, o.Repair(t.Context(), planned(findings(t, o)), reopening(Options{Directory: opts.Directory})))
	contents, err := o.Contents(t.Context())
	must(t, err)
	if len(contents.Spares) == 0 {
		t.Error("got no spare, want one at least")
	}
	for _, f := range contents.Spares {
		if f.Size != opts.SegmentBytes {
			t.Errorf("got %+v, want %d bytes", f, opts.SegmentBytes)
		}
	}
}

// A cursors file of another queue costs a second delivery, not the records.
func TestCursorsOfAnotherQueueAreSetAside(t *testing.T) {
	opts, _, _ := stored(t, false)
	other, _, _ := stored(t, false)
	segments := segmentFiles(t, opts.Directory)
	must(t, os.Rename(filepath.Join(other.Directory, state.CursorsFile), filepath.Join(opts.Directory, state.CursorsFile)))
	o := offline(t, opts)
	must(t, o.Repair(t.Context(), planned(findings(t, o)), reopening(opts)))
	for _, path := range segments {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("a segment is gone: %v", err)
		}
	}
	equal(t, "what is left to find", summary(findings(t, o)), nil)
	if kept := files(t, opts.Directory, state.QuarantineDir+"/"+state.CursorsFile+".*"); len(kept) != 1 {
		t.Errorf("quarantine: got %v, want the foreign cursors", kept)
	}
}

// A disk that takes no copy stops the repair before anything is changed.
func TestRepairOnAFullDisk(t *testing.T) {
	opts, first, _ := stored(t, false)
	flip(t, first.path, first.at[2]-4)
	before := snapshotDir(t, opts.Directory)
	fsys := &faultFS{FS: disk.OS("")}
	fsys.set(func(op, name string) error {
		if op == "create" && strings.Contains(name, state.QuarantineDir) {
			return unix.ENOSPC
		}
		return nil
	})
	opts.FS = fsys
	o := offline(t, opts)
	plan := planned(findings(t, o))
	if err := o.Repair(t.Context(), plan, reopening(opts)); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("got %v, want ENOSPC", err)
	}
	equal(t, "files", snapshotDir(t, opts.Directory), before)
	fsys.set(nil)
	must(t, o.Repair(t.Context(), plan, reopening(opts)))
	equal(t, "after another try", summary(findings(t, o)), []string{"known DamagedFrames record 2"})
}

// A copy counts only when it has all of the bytes.
func TestDamageWithHalfACopyIsNotKnown(t *testing.T) {
	opts, first, _ := stored(t, false)
	flip(t, first.path, first.at[2]-4)
	o := offline(t, opts)
	must(t, o.Repair(t.Context(), planned(findings(t, o)), reopening(opts)))
	must(t, o.Close())
	whole := filepath.Join(opts.Directory, state.QuarantineDir, fmt.Sprintf("%s.%d-%d", filepath.Base(first.path), first.at[1], first.at[2]))
	half := filepath.Join(opts.Directory, state.QuarantineDir, fmt.Sprintf("%s.%d-%d", filepath.Base(first.path), first.at[1], first.at[2]-8))
	must(t, os.Rename(whole, half))
	all := findings(t, offline(t, opts))
	if len(all) != 1 || all[0].Severity != inspect.Damage || !strings.HasPrefix(all[0].Repair, "copy") {
		t.Errorf("got %+v, want damage of which no whole copy is there", all)
	}
}

// reopening has Repair open the queue of opts.
func reopening(opts Options) func(context.Context, int64) error {
	return func(ctx context.Context, spareBytes int64) error { return Reopen(ctx, opts, spareBytes) }
}
