package queue

import (
	"errors"
	"fmt"
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

// Promise 1: what is not synced is neither acknowledged nor shown to a sink.
func TestNothingIsSettledBeforeItIsSynced(t *testing.T) {
	fsys := &faultFS{FS: disk.OS("")}
	q := open(t, Options{Directory: t.TempDir(), FS: fsys})
	storeNumbered(t, q, 1, 1, 1)
	prepared(t, q)
	syncing, goOn := make(chan struct{}), make(chan struct{})
	fsys.set(func(op, name string) error {
		if op == "sync" && isSegment(name) {
			close(syncing)
			<-goOn
		}
		return nil
	})
	settled := make(chan struct{})
	must(t, q.Append(t.Context(), chunk(`{"n":2}`), func() { close(settled) }))
	receive(t, "a sync", syncing)
	select {
	case <-settled:
		t.Error("settled while the sync was under way")
	default:
	}
	if got := q.LastSeq(); got != 1 {
		t.Errorf("last seq while the sync is under way: got %d, want 1", got)
	}
	fsys.set(nil)
	close(goOn)
	<-settled
	if got := q.LastSeq(); got != 2 {
		t.Errorf("last seq after the sync: got %d, want 2", got)
	}
}

func TestFailedCommitIsWrittenAgainElsewhere(t *testing.T) {
	for _, op := range []string{"write", "sync", "create", "syncdir"} {
		t.Run(op, func(t *testing.T) {
			fsys := &faultFS{FS: disk.OS("")}
			opts := Options{Directory: t.TempDir(), FS: fsys}
			if op == "create" || op == "syncdir" {
				opts.SegmentBytes = 1 // every commit begins a segment
			}
			q := open(t, opts)
			storeNumbered(t, q, 1, 3, 1)
			if op == "create" {
				prepared(t, q)
				f, err := q.pool.get(0) // so that the next one has to be made
				must(t, err)
				must(t, f.Close())
			}
			var mu sync.Mutex
			broken := true
			fsys.set(failing(op, func() bool { mu.Lock(); defer mu.Unlock(); return broken }))
			settled := make(chan struct{})
			must(t, q.Append(t.Context(), chunk(`{"n":4}`), func() { close(settled) }))
			await.Until(t, "the failure shows", func() bool { return q.Stats().Err != nil })
			select {
			case <-settled:
				t.Fatal("settled although the disk does not take it")
			default:
			}
			if got := q.LastSeq(); got != 3 {
				t.Errorf("last seq while the disk fails: got %d, want 3", got)
			}
			mu.Lock()
			broken = false
			mu.Unlock()
			<-settled
			storeNumbered(t, q, 5, 6, 1)
			if err := q.Stats().Err; err != nil {
				t.Errorf("health after recovery: %v", err)
			}
			equal(t, "in process", drain(t, q, cursorOf(t, q, "a")), numbered(1, 6))
			closeQueue(t, q)
			q = open(t, Options{Directory: opts.Directory})
			equal(t, "after reopen", drain(t, q, cursorOf(t, q, "b")), numbered(1, 6))
			if got := q.Stats().Corrupt; got != 0 {
				t.Errorf("corrupt: got %d, want 0", got)
			}
		})
	}
}

// A second sync after a failed one says yes to lost data: it must never happen.
func TestFailedSegmentIsNeverSyncedAgain(t *testing.T) {
	fsys := &faultFS{FS: disk.OS("")}
	q := open(t, Options{Directory: t.TempDir(), FS: fsys})
	storeNumbered(t, q, 1, 1, 1)
	prepared(t, q)
	var once sync.Once
	fsys.set(func(op, name string) (err error) {
		if op == "sync" && isSegment(name) {
			once.Do(func() { err = errDisk })
		}
		return err
	})
	storeNumbered(t, q, 2, 5, 1)
	fsys.mu.Lock()
	defer fsys.mu.Unlock()
	if fsys.again != 0 {
		t.Errorf("the file was written or synced %d times after its sync had failed", fsys.again)
	}
}

func TestCloseWithADiskThatFails(t *testing.T) {
	fsys := &faultFS{FS: disk.OS("")}
	opts := Options{Directory: t.TempDir(), FS: fsys}
	q := open(t, opts)
	storeNumbered(t, q, 1, 2, 1)
	fsys.set(failing("sync", func() bool { return true }))
	must(t, q.Append(t.Context(), chunk(`{"n":3}`), func() { t.Error("settled on a failing disk") }))
	await.Until(t, "the failure shows", func() bool { return q.Stats().Err != nil })
	closeQueue(t, q)

	q = open(t, Options{Directory: opts.Directory})
	got := drain(t, q, cursorOf(t, q, "a"))
	if len(got) != 2 && len(got) != 3 { // the third was written and not synced: either is right
		t.Errorf("got %q, want the first two at least", got)
	}
	equal(t, "the acknowledged records", got[:2], numbered(1, 2))
}

// What Open finds at the end of the log may never have been synced, and a sync
// now could say yes although it is gone: so it is written again.
func TestUnprovenTailIsWrittenAgain(t *testing.T) {
	opts := Options{Directory: t.TempDir()}
	q := open(t, opts)
	storeNumbered(t, q, 1, 3, 1)
	killed(t, q)

	fsys := &faultFS{FS: disk.OS("")}
	fsys.set(failing("sync", func() bool { return true }))
	opts.FS = fsys
	q, err := Open(opts)
	must(t, err)
	if got := q.LastSeq(); got != 2 {
		t.Errorf("last seq while the disk takes no writes: got %d, want 2: only they are proven", got)
	}
	fsys.set(nil)
	await.Until(t, "the tail is durable", func() bool { return q.LastSeq() == 3 })
	equal(t, "records", drain(t, q, cursorOf(t, q, "a")), numbered(1, 3))
	closeQueue(t, q)
	q = open(t, Options{Directory: opts.Directory})
	equal(t, "records after reopen", drain(t, q, cursorOf(t, q, "b")), numbered(1, 3))
}

func TestPositionWaitsForTheTail(t *testing.T) {
	opts := Options{Directory: t.TempDir()}
	q := open(t, opts)
	for n := range 3 {
		c := chunk(fmt.Sprint(n))
		c.Producer, c.Position = "p", uint64(n+1)
		store(t, q, c)
	}
	killed(t, q)
	fsys := &faultFS{FS: disk.OS("")}
	fsys.set(failing("sync", func() bool { return true }))
	opts.FS = fsys
	q = open(t, opts)
	got := make(chan uint64)
	go func() {
		n, _, _ := highest(t.Context(), q, Producer{Source: "test", Name: "p"})
		got <- n
	}()
	select {
	case n := <-got:
		t.Fatalf("position %d was told while the end of the log is undecided", n)
	case <-time.After(20 * time.Millisecond): // gives a wrong answer the chance to come
	}
	fsys.set(nil)
	if n := <-got; n != 3 {
		t.Errorf("position: got %d, want 3", n)
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
