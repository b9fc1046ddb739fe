package crashdisk

import (
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/docket-export/docket/internal/disk"
)

// Fault is how an operation fails: the error for its caller, and how much of the operation
// takes effect. A write has effect on this share of its bytes. A sync with less than 1 loses
// what it should have kept. Any other operation takes effect only with 1.
type Fault struct {
	Err  error // nil: none
	Done float64
}

func (f Fault) isWhole() bool { return f.Err == nil || f.Done == 1 }

// Steps counts the operations on a file system, over the lives of several processes, and
// lets a plan decide which of them fail. It counts the open files too. Without Boot it is
// the file system of the operating system.
type Steps struct {
	// Script, when not nil, is asked before each operation that the plan lets pass. It may
	// wait. LastFailed ignores its failures, because they are part of the test. p is what a
	// write writes.
	Script func(op, name string, p []byte) Fault

	mu    sync.Mutex
	fs    disk.FS
	plan  func(n int, op, name string) Fault // nil: nothing fails, nothing is counted
	count int
	last  string // the operation that failed last
	dead  bool   // the process was killed: nothing has an effect any more
	// ended says that plan has killed it, so that no other process is to begin.
	ended bool
	// killed is called when plan kills the process.
	killed func()
	open   int
}

// IsReading are the operations that change nothing.
func IsReading(op string) bool {
	return slices.Contains([]string{"list", "open", "read", "size", "space"}, op)
}

// SetPlan begins to count, and to ask plan; ErrKilled in its answer kills the process.
func (f *Steps) SetPlan(plan func(n int, op, name string) Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plan, f.count, f.ended = plan, 0, false
}

// LastFailed returns the last operation that the plan made fail, or "".
func (f *Steps) LastFailed() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// Forgive makes LastFailed forget that operation.
func (f *Steps) Forgive() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = ""
}

// OpenFiles is how many files are open.
func (f *Steps) OpenFiles() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open
}

func (f *Steps) addOpen(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open += n
}

// Boot begins the life of a process that sees fsys. killed is called when the plan
// kills it.
func (f *Steps) Boot(fsys disk.FS, killed func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fs, f.dead, f.killed = fsys, false, killed
}

// HasEnded reports whether the plan has killed the process.
func (f *Steps) HasEnded() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ended
}

// Kill ends the process.
func (f *Steps) Kill() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dead = true
}

// IsDead reports whether the process was killed.
func (f *Steps) IsDead() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dead
}

// step is called before each operation. When it kills the process, the caller does
// its part of the operation.
func (f *Steps) step(op, name string, p []byte) Fault {
	var scripted Fault
	if f.Script != nil {
		scripted = f.Script(op, name, p)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dead {
		return Fault{Err: ErrKilled}
	}
	var x Fault
	if f.plan != nil {
		f.count++
		x = f.plan(f.count, op, name)
	}
	if x.Err == nil {
		return scripted
	}
	f.last = op + " " + name
	if errors.Is(x.Err, ErrKilled) {
		f.dead, f.ended = true, true
		f.killed()
	}
	return x
}

func (f *Steps) do(op, name string, act func() error) error {
	x := f.step(op, name, nil)
	if x.isWhole() {
		if err := act(); err != nil {
			return err
		}
	}
	return x.Err
}

// Mkdir implements disk.FS.
func (f *Steps) Mkdir(dir string) error {
	return f.do("mkdir", dir, func() error { return f.fs.Mkdir(dir) })
}

// List implements disk.FS.
func (f *Steps) List(dir string) (names []string, err error) {
	if x := f.step("list", dir, nil); x.Err != nil {
		return nil, x.Err
	}
	return f.fs.List(dir)
}

// Dirs implements disk.FS.
func (f *Steps) Dirs(dir string) (names []string, err error) {
	if x := f.step("list", dir, nil); x.Err != nil {
		return nil, x.Err
	}
	return f.fs.Dirs(dir)
}

// Create implements disk.FS.
func (f *Steps) Create(name string) (disk.File, error) {
	if x := f.step("create", name, nil); x.Err != nil {
		return nil, x.Err
	}
	file, err := f.fs.Create(name)
	return f.opened(name, file, err)
}

// Open implements disk.FS.
func (f *Steps) Open(name string) (disk.File, error) { return f.openBy(f.fs.Open, name) }

// OpenWrite implements disk.FS.
func (f *Steps) OpenWrite(name string) (disk.File, error) { return f.openBy(f.fs.OpenWrite, name) }

// OpenRead implements disk.FS.
func (f *Steps) OpenRead(name string) (disk.File, error) { return f.openBy(f.fs.OpenRead, name) }

func (f *Steps) openBy(open func(string) (disk.File, error), name string) (disk.File, error) {
	if x := f.step("open", name, nil); x.Err != nil {
		return nil, x.Err
	}
	file, err := open(name)
	return f.opened(name, file, err)
}

func (f *Steps) opened(name string, file disk.File, err error) (disk.File, error) {
	if err != nil {
		return nil, err
	}
	f.addOpen(1)
	return &stepFile{File: file, fs: f, name: name}, nil
}

// Size implements disk.FS.
func (f *Steps) Size(name string) (int64, error) {
	if x := f.step("size", name, nil); x.Err != nil {
		return 0, x.Err
	}
	return f.fs.Size(name)
}

// Rename implements disk.FS.
func (f *Steps) Rename(from, to string) error {
	return f.do("rename", from+" to "+to, func() error { return f.fs.Rename(from, to) })
}

// Remove implements disk.FS.
func (f *Steps) Remove(name string) error {
	return f.do("remove", name, func() error { return f.fs.Remove(name) })
}

// RemoveDir implements disk.FS.
func (f *Steps) RemoveDir(dir string) error {
	return f.do("remove", dir, func() error { return f.fs.RemoveDir(dir) })
}

// SyncDir implements disk.FS.
func (f *Steps) SyncDir(dir string) error {
	return f.do("syncdir", dir, func() error { return f.fs.SyncDir(dir) })
}

// Space implements disk.FS.
func (f *Steps) Space(dir string) (total, free int64, err error) {
	if x := f.step("space", dir, nil); x.Err != nil {
		return 0, 0, x.Err
	}
	return f.fs.Space(dir)
}

// Lock implements disk.FS.
func (f *Steps) Lock(name string) (disk.Lock, error) { return f.fs.Lock(name) }

// Share implements disk.FS.
func (f *Steps) Share(name string) (io.Closer, error) { return f.fs.Share(name) }

type stepFile struct {
	disk.File
	fs   *Steps
	name string
	once sync.Once
}

func (f *stepFile) ReadAt(p []byte, off int64) (int, error) {
	if x := f.fs.step("read", f.name, nil); x.Err != nil {
		return 0, x.Err
	}
	return f.File.ReadAt(p, off)
}

func (f *stepFile) WriteAt(p []byte, off int64) (int, error) {
	x := f.fs.step("write", f.name, p)
	if x.Err == nil {
		return f.File.WriteAt(p, off)
	}
	n := int(x.Done * float64(len(p)))
	if n > 0 {
		if n, err := f.File.WriteAt(p[:n], off); err != nil {
			return n, err
		}
	}
	return n, x.Err
}

func (f *stepFile) Sync() error {
	x := f.fs.step("sync", f.name, nil)
	if x.isWhole() {
		if err := f.File.Sync(); err != nil {
			return err
		}
	} else if c, ok := f.File.(*file); ok && !errors.Is(x.Err, ErrKilled) {
		c.loseDirty()
	}
	return x.Err
}

func (f *stepFile) Truncate(size int64) error {
	return f.fs.do("truncate", f.name, func() error { return f.File.Truncate(size) })
}

func (f *stepFile) Allocate(size int64) error {
	return f.fs.do("allocate", f.name, func() error { return f.File.Allocate(size) })
}

func (f *stepFile) Size() (int64, error) {
	if x := f.fs.step("size", f.name, nil); x.Err != nil {
		return 0, x.Err
	}
	return f.File.Size()
}

func (f *stepFile) Data(off int64) (from, to int64, err error) {
	if x := f.fs.step("data", f.name, nil); x.Err != nil {
		return 0, 0, x.Err
	}
	return f.File.Data(off)
}

func (f *stepFile) Close() error {
	f.once.Do(func() { f.fs.addOpen(-1) })
	return f.File.Close()
}
