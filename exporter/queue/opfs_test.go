package queue

import (
	"bytes"
	"errors"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// fault is how an operation fails: what its caller is told, and how much of it is
// done all the same. A write has a part of its bytes done; a sync that is not done
// whole loses what it should have kept; of the others, done whole counts.
type fault struct {
	err  error // nil: none
	done float64
}

func (f fault) isWhole() bool { return f.err == nil || f.done == 1 }

// opFS counts the operations on a file system, over the lives of several processes,
// and lets plan decide which of them fail. It counts the open files too.
type opFS struct {
	fs FS

	mu    sync.Mutex
	plan  func(n int, op, name string) fault // nil: nothing fails, nothing is counted
	count int
	last  string // the operation that failed last
	dead  bool   // the process was killed: nothing has an effect any more
	// ended says that plan has killed it, so that no other process is to begin.
	ended bool
	// killed is called when plan kills the process.
	killed func()
	open   int
	// spareReserve refuses the reserve, which is most of what a queue of this size
	// writes, where nothing is tested that needs it.
	spareReserve bool
	gate         chan struct{} // when not nil, writes of frames wait until it is closed
	// So many of the next operations of this kind fail as a part of what is tested.
	scripted     string
	scriptedLeft int
}

// isReading are the operations that change nothing.
func isReading(op string) bool {
	return slices.Contains([]string{"list", "open", "read", "size", "space"}, op)
}

func (f *opFS) setPlan(plan func(n int, op, name string) fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plan, f.count, f.ended = plan, 0, false
}

func (f *opFS) lastFailed() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

func (f *opFS) openFiles() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open
}

func (f *opFS) addOpen(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open += n
}

// boot begins the life of a process that sees fsys.
func (f *opFS) boot(fsys FS, killed func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fs, f.dead, f.killed = fsys, false, killed
}

// hasEnded reports whether plan has killed the process.
func (f *opFS) hasEnded() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ended
}

func (f *opFS) kill() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dead = true
}

func (f *opFS) isDead() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dead
}

// step is called before each operation. When it kills the process, the caller does
// its part of the operation.
func (f *opFS) step(op, name string) fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dead {
		return fault{err: errKilled}
	}
	var x fault
	if f.plan != nil {
		f.count++
		x = f.plan(f.count, op, name)
	}
	if x.err == nil && f.scriptedLeft > 0 && f.scripted == op && (op == "syncdir" || isSegment(name)) {
		f.scriptedLeft--
		return fault{err: unix.EIO, done: 0.5}
	}
	if x.err != nil {
		f.last = op + " " + name
		if errors.Is(x.err, errKilled) {
			f.dead, f.ended = true, true
			f.killed()
		}
	}
	return x
}

// hold keeps writes of frames waiting until the result is called, so that what is
// appended meanwhile becomes one commit.
func (f *opFS) hold() (release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	gate := make(chan struct{})
	f.gate = gate
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.gate = nil
		close(gate)
	}
}

func (f *opFS) holds() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.gate != nil
}

// pass waits at the gate with a write of frames.
func (f *opFS) pass(p []byte) {
	f.mu.Lock()
	gate := f.gate
	f.mu.Unlock()
	if gate != nil && bytes.HasPrefix(p, frameMagicBytes) {
		<-gate
	}
}

func (f *opFS) do(op, name string, act func() error) error {
	x := f.step(op, name)
	if x.isWhole() {
		if err := act(); err != nil {
			return err
		}
	}
	return x.err
}

func (f *opFS) MkdirAll(dir string) error { return f.fs.MkdirAll(dir) }

func (f *opFS) List(dir string) (names []string, err error) {
	if x := f.step("list", dir); x.err != nil {
		return nil, x.err
	}
	return f.fs.List(dir)
}

func (f *opFS) Create(name string) (File, error) {
	if x := f.step("create", name); x.err != nil {
		return nil, x.err
	}
	if f.spareReserve && filepath.Base(name) == reserveFile+newSuffix {
		return nil, unix.ENOSPC
	}
	file, err := f.fs.Create(name)
	return f.opened(name, file, err)
}

func (f *opFS) Open(name string) (File, error) {
	if x := f.step("open", name); x.err != nil {
		return nil, x.err
	}
	file, err := f.fs.Open(name)
	return f.opened(name, file, err)
}

func (f *opFS) opened(name string, file File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	f.addOpen(1)
	return &opFile{File: file, fs: f, name: name}, nil
}

func (f *opFS) Rename(from, to string) error {
	return f.do("rename", from+" to "+to, func() error { return f.fs.Rename(from, to) })
}

func (f *opFS) Remove(name string) error {
	return f.do("remove", name, func() error { return f.fs.Remove(name) })
}

func (f *opFS) SyncDir(dir string) error {
	return f.do("syncdir", dir, func() error { return f.fs.SyncDir(dir) })
}

func (f *opFS) Space(dir string) (total, free int64, err error) {
	if x := f.step("space", dir); x.err != nil {
		return 0, 0, x.err
	}
	return f.fs.Space(dir)
}

func (f *opFS) Lock(name string) (Lock, error) { return f.fs.Lock(name) }

type opFile struct {
	File
	fs   *opFS
	name string
	once sync.Once
}

func (f *opFile) ReadAt(p []byte, off int64) (int, error) {
	if x := f.fs.step("read", f.name); x.err != nil {
		return 0, x.err
	}
	return f.File.ReadAt(p, off)
}

func (f *opFile) WriteAt(p []byte, off int64) (int, error) {
	f.fs.pass(p)
	x := f.fs.step("write", f.name)
	if x.err == nil {
		return f.File.WriteAt(p, off)
	}
	n := int(x.done * float64(len(p)))
	if n > 0 {
		if n, err := f.File.WriteAt(p[:n], off); err != nil {
			return n, err
		}
	}
	return n, x.err
}

func (f *opFile) Sync() error {
	x := f.fs.step("sync", f.name)
	if x.isWhole() {
		if err := f.File.Sync(); err != nil {
			return err
		}
	} else if c, ok := f.File.(*crashFile); ok && !errors.Is(x.err, errKilled) {
		c.loseDirty()
	}
	return x.err
}

func (f *opFile) Truncate(size int64) error {
	return f.fs.do("truncate", f.name, func() error { return f.File.Truncate(size) })
}

func (f *opFile) Allocate(size int64) error {
	return f.fs.do("allocate", f.name, func() error { return f.File.Allocate(size) })
}

func (f *opFile) Size() (int64, error) {
	if x := f.fs.step("size", f.name); x.err != nil {
		return 0, x.err
	}
	return f.File.Size()
}

func (f *opFile) Data(off int64) (from, to int64, err error) {
	if x := f.fs.step("data", f.name); x.err != nil {
		return 0, 0, x.err
	}
	return f.File.Data(off)
}

func (f *opFile) Close() error {
	f.once.Do(func() { f.fs.addOpen(-1) })
	return f.File.Close()
}

// loseDirty is what a failed sync does in Linux: the pages count as clean.
func (f *crashFile) loseDirty() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.inode.dirty)
}

// clone returns a copy of the disk, for a look at one of several outcomes. What the
// reserve holds means nothing, and most of the disk is that.
func (d *crashDisk) clone(dice *rand.Rand) *crashDisk {
	d.mu.Lock()
	defer d.mu.Unlock()
	copies := map[*crashInode]*crashInode{nil: nil}
	for name, i := range d.names {
		if strings.HasPrefix(filepath.Base(name), reserveFile) {
			copies[i] = &crashInode{dirty: map[int]bool{}}
		}
	}
	inode := func(i *crashInode) *crashInode {
		if _, ok := copies[i]; !ok {
			copies[i] = &crashInode{cache: slices.Clone(i.cache), disk: slices.Clone(i.disk), dirty: maps.Clone(i.dirty)}
		}
		return copies[i]
	}
	c := newCrashDisk(dice)
	for name, i := range d.names {
		c.names[name] = inode(i)
	}
	for name, i := range d.durable {
		c.durable[name] = inode(i)
	}
	for _, r := range d.renames {
		c.renames = append(c.renames, nameChange{name: r.name, from: r.from, inode: inode(r.inode)})
	}
	return c
}

// cut is a power cut whose outcome is given: whether names that were not synced
// stay, and which pages do.
func (d *crashDisk) cut(names bool, pages func(page int) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if names {
		d.durable = maps.Clone(d.names)
	}
	d.names, d.renames = maps.Clone(d.durable), nil
	for _, i := range d.names {
		for page := range i.dirty {
			if pages(page) {
				for at := page * pageBytes; at < (page+1)*pageBytes; at += sectorBytes {
					i.flush(at)
				}
			}
		}
		clear(i.dirty)
		i.cache = slices.Clone(i.disk)
	}
}
