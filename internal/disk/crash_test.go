package disk_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/disk/crashdisk"
)

func place(fsys disk.FS) disk.Path { return disk.On(fsys, "/queue") }

func create(name string, content ...byte) func(disk.FS) error {
	return func(fsys disk.FS) error {
		if err := place(fsys).MakeDir(); err != nil {
			return err
		}
		return place(fsys).Join(name).WriteNew(content)
	}
}

// holds wants the file to have one of these contents, the first one if the verb has
// returned nil. "" stands for no file.
func holds(name string, contents ...string) func(fsys disk.FS, did bool) error {
	return func(fsys disk.FS, did bool) error {
		may := contents
		if did {
			may = contents[:1]
		}
		got, err := place(fsys).Join(name).Read(1 << 20)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if !slices.Contains(may, string(got)) {
			return fmt.Errorf("got %.20q, want %.20q", got, may)
		}
		return nil
	}
}

// What a verb has said is durable is there after a power cut, and what was there before it
// is not lost, whenever the process is killed and whatever fails.
func TestVerbsOutliveAPowerCut(t *testing.T) {
	old := strings.Repeat("old", 3000) // two pages
	for name, trial := range map[string]crashdisk.Trial{
		"MakeDir": {
			Do: func(fsys disk.FS) error { return place(fsys).Join("a", "b").MakeDir() },
			Check: func(fsys disk.FS, did bool) error {
				if err := fsys.Mkdir("/queue/a/b"); did && !errors.Is(err, fs.ErrExist) {
					return errors.New("the directory is gone")
				}
				return nil
			},
		},
		"Replace": {
			Prepare: create("file", []byte(old)...),
			Do:      func(fsys disk.FS) error { return place(fsys).Join("file").Replace([]byte("new")) },
			Check:   holds("file", "new", old),
		},
		"WriteNew": {Do: create("file", []byte(old)...), Check: func(fsys disk.FS, did bool) error {
			if did {
				return holds("file", old)(fsys, true)
			}
			return nil
		}},
		"Append": {
			Prepare: create("file", []byte("one;")...),
			Do: func(fsys disk.FS) error {
				f, err := place(fsys).Join("file").OpenWrite()
				if err != nil {
					return err
				}
				defer f.Close()
				return (&disk.Log{File: f, End: 4}).Append([]byte("two;"))
			},
			Check: holds("file", "one;two;", "one;", "one;t", "one;\x00", "one;\x00\x00", "one;\x00\x00\x00", "one;\x00\x00\x00\x00"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := trial.Run(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A directory that a killed process has made is made durable by the next one that needs it,
// and so is the root.
func TestMakeDirSyncsWhatIsThere(t *testing.T) {
	d := crashdisk.New(rand.New(rand.NewPCG(1, 1)))
	d.Boot()
	place := disk.On(d.Process(), "/data")
	for _, name := range []string{"/data", "/data/a", "/data/a/b"} {
		if err := d.Process().Mkdir(name); err != nil {
			t.Fatal(err)
		}
	}
	if err := place.Join("a", "b").MakeDir(); err != nil {
		t.Fatal(err)
	}
	d.Cut(false, func(int) bool { return false })
	if err := d.Process().Mkdir("/data/a/b"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v, want that the directory is there", err)
	}
}

// A log whose sync has failed takes nothing any more: another sync would say that all is
// well. One whose write has failed goes on behind the last whole piece.
func TestLogAfterAFailure(t *testing.T) {
	for op, broken := range map[string]bool{"write": false, "sync": true} {
		d := crashdisk.New(rand.New(rand.NewPCG(1, 1)))
		d.Boot()
		steps := &crashdisk.Steps{}
		steps.Boot(d.Process(), func() {})
		f, err := disk.On(steps, "/").Join("log").Create()
		if err != nil {
			t.Fatal(err)
		}
		l := &disk.Log{File: f}
		if err := l.Append([]byte("one;")); err != nil {
			t.Fatal(err)
		}
		steps.SetPlan(func(_ int, kind, _ string) crashdisk.Fault {
			if kind == op {
				return crashdisk.Fault{Err: unix.EIO, Done: 0.5}
			}
			return crashdisk.Fault{}
		})
		if err := l.Append([]byte("two;")); !errors.Is(err, unix.EIO) {
			t.Errorf("%s: got %v, want EIO", op, err)
		}
		steps.SetPlan(nil)
		err = l.Append([]byte("three;"))
		if got := l.IsBroken(); got != broken || (err != nil) != broken {
			t.Errorf("%s: got error %v and broken %v, want %v", op, err, got, broken)
		}
		want := map[bool]string{true: "one;", false: "one;three;"}[broken]
		if got := string(d.File("/log").Content()); got != want {
			t.Errorf("%s: got %q, want %q", op, got, want)
		}
	}
}
