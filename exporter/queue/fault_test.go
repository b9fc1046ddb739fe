package queue

import (
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
)

// faultFS is the operating system's file system with a hook before what changes
// it.
type faultFS struct {
	disk.FS
	mu sync.Mutex
	// again counts writes and syncs of files after a sync of them has failed.
	again int
	hook  func(op string, name string) error // op is "create", "write", "sync", "syncdir" or "remove", which takes no error
}

func (f *faultFS) set(hook func(op, name string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = hook
}

func (f *faultFS) check(op, name string) error {
	f.mu.Lock()
	hook := f.hook
	f.mu.Unlock()
	if hook == nil {
		return nil
	}
	return hook(op, name)
}

func (f *faultFS) Create(name string) (disk.File, error) {
	if err := f.check("create", name); err != nil {
		return nil, err
	}
	file, err := f.FS.Create(name)
	return &faultFile{File: file, fs: f, name: name}, err
}

func (f *faultFS) Open(name string) (disk.File, error) {
	file, err := f.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return &faultFile{File: file, fs: f, name: name}, nil
}

func (f *faultFS) SyncDir(dir string) error {
	if err := f.check("syncdir", dir); err != nil {
		return err
	}
	return f.FS.SyncDir(dir)
}

func (f *faultFS) Remove(name string) error {
	_ = f.check("remove", name)
	return f.FS.Remove(name)
}

type faultFile struct {
	disk.File
	fs     *faultFS
	name   string
	failed bool // a sync has; guarded by fs.mu
}

// touch counts a change of a file that must not be trusted any more.
func (f *faultFile) touch() {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.failed {
		f.fs.again++
	}
}

func (f *faultFile) WriteAt(p []byte, off int64) (int, error) {
	f.touch()
	if err := f.fs.check("write", f.name); err != nil {
		n, _ := f.File.WriteAt(p[:len(p)/2], off) // what a full disk does: half of it is there
		return n, err
	}
	return f.File.WriteAt(p, off)
}

func (f *faultFile) Sync() error {
	f.touch()
	if err := f.fs.check("sync", f.name); err != nil {
		f.fs.mu.Lock()
		f.failed = true
		f.fs.mu.Unlock()
		return err
	}
	return f.File.Sync()
}

// isSegment reports whether name is that of a segment, before or after it got
// its own.
func isSegment(name string) bool {
	return strings.HasSuffix(name, segmentSuffix) || isBegun(name)
}

func isBegun(name string) bool {
	return strings.HasPrefix(filepath.Base(name), state.BeginPrefix)
}

// receive waits for ch, and fails rather than hang.
func receive[T any](t *testing.T, what string, ch <-chan T) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(await.Left(t)):
		t.Fatalf("no time is left to wait for %s", what)
	}
}

var errDisk = errors.New("injected: input/output error")

// failing returns a hook that fails the operation op on segments while on() is
// true.
func failing(op string, on func() bool) func(string, string) error {
	return func(o, name string) error {
		if o == op && (op == "syncdir" || isSegment(name)) && on() {
			return errDisk
		}
		return nil
	}
}

// Stats tell the accounts that a crash would leave from those that are on their way to the disk.
func TestStatsOfSavedAccounts(t *testing.T) {
	files := &faultFS{FS: disk.OS("")}
	q := open(t, Options{Directory: t.TempDir(), FS: files})
	storeNumbered(t, q, 1, 9, 2)
	c := cursorOf(t, q, "a")
	drain(t, q, c)
	must(t, c.Ack(4))
	must(t, c.Save(t.Context()))
	files.set(func(op, name string) error {
		if filepath.Base(name) == state.CursorsFile {
			return errors.New("the disk takes no accounts")
		}
		return nil
	})
	must(t, c.Ack(9))
	if s := q.Stats(); s.Cursors["a"].Next != 10 || s.Saved["a"].Next != 5 {
		t.Errorf("got %+v, on disk %+v; want the next record to be 10, on disk 5", s.Cursors["a"], s.Saved["a"])
	}
	files.set(nil)
	must(t, c.Save(t.Context()))
	if s := q.Stats(); s.Saved["a"] != s.Cursors["a"] {
		t.Errorf("got %+v on disk, want %+v", s.Saved["a"], s.Cursors["a"])
	}
}
