package relocation

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/disk/crashdisk"
	"github.com/docket-export/docket/internal/moved"
)

var (
	queueID = uuid.MustParse("5ee7a1d8-4a52-4a09-9c33-6a4c1d9e2b01")
	otherID = uuid.MustParse("0b2c4d6e-8f10-4213-9455-66778899aabb")
)

// seeds are fewer than in other trials: a move takes many operations.
func seeds() uint64 {
	if testing.Short() {
		return 1
	}
	return 4
}

// files are the contents of files, by path.
type files map[string]string

// original is what moves, but for the cursors.
var original = files{
	"/old/queue/positions":               "positions",
	"/old/queue/dead-letters/siem/1":     "a letter",
	"/old/queue/empty":                   "",
	"/old/export/manifest.jsonl":         "a line\n",
	"/old/export/2026-01-02/decisions-1": "a record\n",
}

func pairs() []Pair {
	return []Pair{{"/old/queue", "/new/queue"}, {"/old/export", "/new/export"}, {"/old/unused", "/new/unused"}}
}

func back() []Pair { return []Pair{{"/new/queue", "/old/queue"}, {"/new/export", "/old/export"}} }

func on(fsys disk.FS, pairs []Pair) *Relocation {
	return &Relocation{Pairs: pairs, Disk: func(string) disk.FS { return fsys }}
}

// make makes a queue of this id, in files.
func (f files) make(fsys disk.FS, id uuid.UUID, queue string) error {
	for _, name := range slices.Sorted(maps.Keys(f)) {
		at := disk.On(fsys, name)
		if err := errors.Join(at.Dir().MakeDir(), at.WriteNew([]byte(f[name]))); err != nil {
			return err
		}
	}
	c, err := state.CreateCursorFile(fsys, queue, id, map[string]state.Account{"siem": {Next: 7, Delivered: 6}})
	if err != nil {
		return err
	}
	return c.File.Close()
}

// in returns f with other directories.
func (f files) in(rename map[string]string) files {
	g := files{}
	for name, text := range f {
		for from, to := range rename {
			if below, ok := cutDir(name, from); ok {
				g[to+below] = text
			}
		}
	}
	return g
}

func cutDir(name, dir string) (below string, ok bool) {
	if len(name) > len(dir) && name[:len(dir)+1] == dir+"/" {
		return name[len(dir):], true
	}
	return "", false
}

// has fails unless fsys has the files and, in queue, the cursors of queueID.
func (f files) has(fsys disk.FS, queue string) error {
	for name, want := range f {
		got, err := disk.On(fsys, name).Read(1 << 10)
		if err != nil {
			return err
		}
		if string(got) != want {
			return fmt.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	id, err := on(fsys, nil).queueIn(queue)
	if err == nil && id != queueID.String() {
		err = fmt.Errorf("%s has queue %s", queue, id)
	}
	return err
}

// isUsable reports whether docket would go on with the queue in dir.
func isUsable(fsys disk.FS, dir string) bool {
	id, err := on(fsys, nil).queueIn(dir)
	return err == nil && id != uuid.Nil.String() && moved.Check(disk.On(fsys, dir)) == nil
}

var toNew = map[string]string{"/old/queue": "/new/queue", "/old/export": "/new/export"}

// Whatever a kill, a failing disk and then a power cut leave: one of the two queues at most
// can be used, that one is whole, and the same call again ends with the new one. Where the
// old one can be used, what docket adds to it meanwhile moves too.
func TestMoveSurvivesPowerCuts(t *testing.T) {
	t.Parallel()
	trial := crashdisk.Trial{
		Seeds:   seeds(),
		Prepare: func(fsys disk.FS) error { return original.make(fsys, queueID, "/old/queue") },
		Do: func(fsys disk.FS) error {
			_, err := on(fsys, pairs()).Run()
			return err
		},
		Check: func(fsys disk.FS, did bool) error {
			if err := mustBeOne(fsys, did); err != nil {
				return err
			}
			want := maps.Clone(original)
			if isUsable(fsys, "/old/queue") {
				want["/old/queue/later"] = "added since"
				if err := disk.On(fsys, "/old/queue/later").WriteNew([]byte("added since")); err != nil {
					return err
				}
			}
			for range 2 { // when it is done, it changes nothing more
				if _, err := on(fsys, pairs()).Run(); err != nil {
					return fmt.Errorf("again: %w", err)
				}
				if err := errors.Join(mustBeOne(fsys, true), want.in(toNew).has(fsys, "/new/queue")); err != nil {
					return fmt.Errorf("again: %w", err)
				}
			}
			return nil
		},
	}
	if err := trial.Run(); err != nil {
		t.Fatal(err)
	}
}

// mustBeOne fails unless one queue at most can be used, and that one, or both, are whole.
func mustBeOne(fsys disk.FS, did bool) error {
	old, fresh := isUsable(fsys, "/old/queue"), isUsable(fsys, "/new/queue")
	switch {
	case old && (fresh || did):
		return fmt.Errorf("the old queue can be used; the new one too: %t; it was moved: %t", fresh, did)
	case did && !fresh:
		return errors.New("it was moved and the new queue cannot be used")
	case old:
		return original.has(fsys, "/old/queue")
	}
	if fresh { // docket may be feeding the export
		if err := moved.Check(disk.On(fsys, "/new/export")); err != nil {
			return err
		}
		if moved.Check(disk.On(fsys, "/old/export")) == nil {
			return errors.New("the old export can be used with the new queue, and what it gets is removed")
		}
	}
	return original.in(toNew).has(fsys, "/new/queue")
}

// A queue can move back to where it was.
func TestMoveBackSurvivesPowerCuts(t *testing.T) {
	t.Parallel()
	trial := crashdisk.Trial{
		Seeds: seeds(),
		Prepare: func(fsys disk.FS) error {
			if err := original.make(fsys, queueID, "/old/queue"); err != nil {
				return err
			}
			_, err := on(fsys, pairs()).Run()
			return err
		},
		Do: func(fsys disk.FS) error {
			_, err := on(fsys, back()).Run()
			return err
		},
		Check: func(fsys disk.FS, did bool) error {
			if old, fresh := isUsable(fsys, "/old/queue"), isUsable(fsys, "/new/queue"); old && fresh || did && !old {
				return fmt.Errorf("the old queue can be used: %t, the new one: %t; it was moved back: %t", old, fresh, did)
			}
			if _, err := on(fsys, back()).Run(); err != nil {
				return fmt.Errorf("again: %w", err)
			}
			if !isUsable(fsys, "/old/queue") || isUsable(fsys, "/new/queue") {
				return errors.New("again: the queue is not back")
			}
			return original.has(fsys, "/old/queue")
		},
	}
	if err := trial.Run(); err != nil {
		t.Fatal(err)
	}
}

// What would mix two queues, or remove what is not moved, is refused, and nothing has changed.
func TestMoveIsRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		pairs   []Pair
		prepare func(fsys disk.FS) error
		want    string
	}{
		"into itself": {[]Pair{{"/old/queue", "/old/queue/deeper"}}, nil,
			"/old/queue/deeper must not be in /old/queue, nor contain it"},
		"to where it is": {[]Pair{{"/old/queue", "/old/queue"}}, nil,
			"/old/queue must not be in /old/queue, nor contain it"},
		"another queue there": {pairs(), func(fsys disk.FS) error { return files{}.makeIn(fsys, otherID, "/new/queue") },
			"move the queue /old/queue: /new/queue is not empty: it has cursors; name another directory"},
		"another export there": {pairs(), func(fsys disk.FS) error {
			return errors.Join(disk.On(fsys, "/new/export").MakeDir(), disk.On(fsys, "/new/export/manifest.jsonl").WriteNew(nil))
		}, "move the queue /old/queue: /new/export is not empty: it has manifest.jsonl; name another directory"},
		"half of another queue there": {pairs(), func(fsys disk.FS) error {
			return errors.Join(disk.On(fsys, "/new/queue").MakeDir(),
				moved.Write(disk.On(fsys, "/new/queue"), moved.FromFile, moved.Mark{Queue: otherID.String(), From: "/old/queue", To: "/new/queue"}))
		}, "move the queue /old/queue: /new/queue is not empty: it has moving-from; name another directory"},
		"half a queue moves on": {pairs(), func(fsys disk.FS) error {
			return moved.Write(disk.On(fsys, "/old/queue"), moved.FromFile, moved.Mark{Queue: queueID.String(), From: "/first", To: "/old/queue"})
		}, "move the queue /old/queue: /old/queue: the move from /first has not finished: run docket queue move again"},
		"moved elsewhere": {pairs(), func(fsys disk.FS) error {
			return moved.Write(disk.On(fsys, "/old/queue"), moved.ToFile, moved.Mark{Queue: queueID.String(), From: "/old/queue", To: "/third"})
		}, "move the queue /old/queue: moved to /third: name the new directory, or mount its volume here"},
		"moved, and the volume is not mounted": {pairs(), func(fsys disk.FS) error {
			return errors.Join(disk.On(fsys, "/new/queue").MakeDir(),
				moved.Write(disk.On(fsys, "/old/queue"), moved.ToFile, moved.Mark{Queue: queueID.String(), From: "/old/queue", To: "/new/queue"}))
		}, "move the queue /old/queue: the queue " + queueID.String() + " was moved to /new/queue, which has another queue or none: check that its volume is mounted"},
		"moved, and mounted elsewhere": {pairs(), func(fsys disk.FS) error {
			return errors.Join(files{}.makeIn(fsys, queueID, "/new/queue"),
				moved.Write(disk.On(fsys, "/old/queue"), moved.ToFile, moved.Mark{Queue: queueID.String(), From: "/third", To: "/new/queue"}))
		}, "move the queue /old/queue: its file moved-to says that /third was moved to /new/queue, which is not part of this move: mount the volumes where they were"},
		"a mark names what docket has not made": {pairs(), func(fsys disk.FS) error {
			mark := moved.Mark{Queue: queueID.String(), From: "/old/queue", To: "/new/queue", With: []moved.Mark{
				{Queue: queueID.String(), From: "/old/../home", To: "/home"}}}
			return errors.Join(files{"/home/letter": "dear"}.makeIn(fsys, queueID, "/new/queue"),
				moved.Write(disk.On(fsys, "/old/queue"), moved.ToFile, mark))
		}, "move the queue /old/queue: its file moved-to says that /old/../home was moved to /home, which is not part of this move: mount the volumes where they were"},
		"a mark with what a terminal obeys": {pairs(), func(fsys disk.FS) error {
			return moved.Write(disk.On(fsys, "/old/queue"), moved.ToFile, moved.Mark{To: "\x1b[2J/" + strings.Repeat("y", 5000)})
		}, "move the queue /old/queue: moved to  [2J/" + strings.Repeat("y", 4091) + ": name the new directory, or mount its volume here"},
	} {
		t.Run(name, func(t *testing.T) {
			d, fsys := withOriginal(t)
			if tt.prepare != nil {
				if err := tt.prepare(fsys); err != nil {
					t.Fatal(err)
				}
			}
			before := d.Names()
			if _, err := on(fsys, tt.pairs).Run(); err == nil || err.Error() != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
			if after := d.Names(); !slices.Equal(after, before) {
				t.Errorf("got the files %q, want %q", after, before)
			}
		})
	}
}

// withOriginal is a disk with the original.
func withOriginal(t *testing.T) (*crashdisk.Disk, disk.FS) {
	t.Helper()
	d := crashdisk.New(rand.New(rand.NewPCG(1, 1)))
	d.Boot(-1, func() {})
	fsys := &crashdisk.Steps{}
	fsys.Boot(d.Process(), func() {})
	if err := original.make(fsys, queueID, "/old/queue"); err != nil {
		t.Fatal(err)
	}
	return d, fsys
}

func (f files) makeIn(fsys disk.FS, id uuid.UUID, queue string) error {
	return errors.Join(disk.On(fsys, queue).MakeDir(), f.make(fsys, id, queue))
}

// An export that lies in another one moves too, whichever of them is named first.
func TestExportInAnExportMoves(t *testing.T) {
	outer, inner := Pair{"/old/export", "/new/export"}, Pair{"/old/export/2026-01-02", "/new/export/2026-01-02"}
	for _, exports := range [][]Pair{{outer, inner}, {inner, outer}} {
		_, fsys := withOriginal(t)
		for range 2 {
			if _, err := on(fsys, append(pairs()[:1], exports...)).Run(); err != nil {
				t.Fatal(err)
			}
			if err := mustBeOne(fsys, true); err != nil {
				t.Error(err)
			}
		}
	}
}

// An export that has begun anew where one was moved from is not of that move.
func TestMoveAgainSparesANewExport(t *testing.T) {
	_, fsys := withOriginal(t)
	if _, err := on(fsys, pairs()).Run(); err != nil {
		t.Fatal(err)
	}
	anew := disk.On(fsys, "/old/export/manifest.jsonl")
	if err := errors.Join(moved.Remove(anew.Dir(), moved.ToFile), anew.WriteNew([]byte("anew"))); err != nil {
		t.Fatal(err)
	}
	if _, err := on(fsys, pairs()).Run(); err != nil {
		t.Fatal(err)
	}
	if text, err := anew.Read(10); err != nil || string(text) != "anew" {
		t.Errorf("got %q, %v of the new export, want it as it was", text, err)
	}
}

// A new directory that lies in the old queue by a link would be removed with it.
func TestLinkIntoTheOldQueueIsRefused(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := (files{at("old/queue/positions"): "positions"}).makeIn(disk.OS(dir), queueID, at("old/queue")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("old/queue", at("new")); err != nil {
		t.Fatal(err)
	}
	r := Relocation{Pairs: []Pair{{at("old/queue"), at("new/queue")}}, Disk: disk.OS}
	want := fmt.Sprintf("move the queue %[1]s: the new directory %[1]s/queue lies in %[1]s, through a link or a mount: name another directory", at("old/queue"))
	if _, err := r.Run(); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if _, err := os.Stat(at("old/queue/positions")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(at("old/queue/queue/moving-from")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v of the mark, want none", err)
	}
}
