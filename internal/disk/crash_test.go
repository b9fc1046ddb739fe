package disk_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/disk/crashdisk"
)

const root = "/data/root"

// verbs are what must hold after a power cut: did says that the verb returned nil.
var verbs = map[string]struct {
	prepare func(root disk.Path) error
	do      func(root disk.Path) error
	check   func(root disk.Path, did bool) error
}{
	"MakeDir": {
		do: func(root disk.Path) error { return root.Join("a", "b").MakeDir() },
		check: func(root disk.Path, did bool) error {
			if !did {
				return nil
			}
			f, err := root.Join("a", "b", "file").Create()
			if err == nil {
				err = f.Close()
			}
			return err
		},
	},
	"Replace": {
		prepare: func(root disk.Path) error { return root.Join("file").Replace(bytes.Repeat([]byte("old"), 3000)) },
		do:      func(root disk.Path) error { return root.Join("file").Replace([]byte("new")) },
		check: func(root disk.Path, did bool) error {
			got, err := root.Join("file").Read(1 << 20)
			if err == nil && string(got) != "new" && (did || !bytes.Equal(got, bytes.Repeat([]byte("old"), 3000))) {
				err = fmt.Errorf("got %.20q", got)
			}
			return err
		},
	},
	"WriteNew": {
		do: func(root disk.Path) error {
			return root.Join("file").WriteNew(func(f disk.File) error { _, err := f.WriteAt([]byte("new"), 0); return err })
		},
		check: func(root disk.Path, did bool) error {
			got, err := root.Join("file").Read(1 << 20)
			if did && err == nil && string(got) != "new" {
				err = fmt.Errorf("got %.20q", got)
			}
			if !did && errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
			return err
		},
	},
	"Append": {
		prepare: func(root disk.Path) error {
			return root.Join("file").WriteNew(func(f disk.File) error { return (&disk.Log{File: f}).Append([]byte("one;")) })
		},
		do: func(root disk.Path) error {
			f, err := root.Join("file").OpenWrite()
			if err != nil {
				return err
			}
			defer f.Close()
			return (&disk.Log{File: f, End: 4}).Append([]byte("two;"))
		},
		check: func(root disk.Path, did bool) error {
			got, err := root.Join("file").Read(1 << 20)
			if err == nil && (!bytes.HasPrefix(got, []byte("one;")) || did && string(got) != "one;two;") {
				err = fmt.Errorf("got %.20q", got)
			}
			return err
		},
	},
}

// The process is killed at each operation of a verb, or that operation fails; then the
// power goes. What the verb has said is durable is there, and what was there before it is
// not lost.
func TestVerbsOutliveAPowerCut(t *testing.T) {
	for name, verb := range verbs {
		for _, how := range []error{crashdisk.ErrKilled, unix.EIO} {
			t.Run(fmt.Sprint(name, "/", how), func(t *testing.T) {
				for n, more := 1, true; more; n++ {
					for seed := range uint64(20) {
						d := crashdisk.New(rand.New(rand.NewPCG(seed, 1)))
						boot := func() *crashdisk.Steps {
							d.Boot(-1, func() {})
							s := &crashdisk.Steps{}
							s.Boot(d.Process(), func() {})
							return s
						}
						steps := boot()
						place := disk.On(steps, root)
						if err := place.MakeDir(); err != nil {
							t.Fatal(err)
						}
						if verb.prepare != nil {
							if err := verb.prepare(place); err != nil {
								t.Fatal(err)
							}
						}
						more = false
						steps.SetPlan(func(at int, _, _ string) crashdisk.Fault {
							if at != n {
								return crashdisk.Fault{}
							}
							more = true
							return crashdisk.Fault{Err: how}
						})
						err := verb.do(place)
						if !more && err != nil {
							t.Fatalf("nothing failed, and got %v", err)
						}
						d.Kill()
						d.PowerCut()
						if err := verb.check(disk.On(boot(), root), err == nil); err != nil {
							t.Fatalf("operation %d (%s), seed %d: %v, the verb had returned %v", n, steps.LastFailed(), seed, err, err)
						}
					}
				}
			})
		}
	}
}

// A directory that a killed process has made is made durable by the next one that needs it.
func TestMakeDirSyncsWhatIsThere(t *testing.T) {
	d := crashdisk.New(rand.New(rand.NewPCG(1, 1)))
	d.Boot(-1, func() {})
	place := disk.On(d.Process(), "/data")
	if err := place.MakeDir(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"/data/a", "/data/a/b"} {
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
		d.Boot(-1, func() {})
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
