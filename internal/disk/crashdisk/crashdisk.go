// Package crashdisk is a disk for tests, in memory, that forgets what was not synced.
//
// Disk is what a computer has: files, directories, and a page cache before them. Process
// is the file system as one process sees it, which Boot begins and Kill ends. After that
// PowerCut, or Cut, leaves what a power cut may leave. Steps counts the operations of a
// process and makes those fail that a plan names.
package crashdisk

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/internal/disk"
)

// PageBytes is what the page cache marks dirty.
const PageBytes = 4096

// ErrKilled is the error of every operation of a killed process.
var ErrKilled = errors.New("the process was killed")

// Disk is a disk in memory with a page cache before it. A power cut makes it forget dirty pages, sector by sector, and names that were not synced. After a
// failed sync the pages count as clean, as in Linux: reads still show them, no later sync
// writes them.
type Disk struct {
	mu      sync.Mutex
	dice    *rand.Rand
	names   map[string]*Inode // as the process sees them
	durable map[string]*Inode // as a power cut leaves them
	renames []nameChange      // not synced, in order

	sector   int      // what the disk writes whole
	breaches []string // names of files that were synced after a failed sync

	boots int  // files opened before the last one are of no use
	dead  bool // the process was killed
}

// nameChange gives the name to an inode, none when inode is nil, and takes it
// from the name from. Either name may be empty.
type nameChange struct {
	name, from string
	inode      *Inode
}

// New returns an empty disk.
func New(dice *rand.Rand) *Disk {
	root := &Inode{isDir: true}
	return &Disk{dice: dice, names: map[string]*Inode{"/": root}, durable: map[string]*Inode{"/": root}, sector: 512, boots: 1}
}

// SetSector sets how many bytes the disk writes whole. The default is 512. It must divide
// PageBytes.
func (d *Disk) SetSector(bytes int) { d.sector = bytes }

// Breaches returns the files that a process synced again after a failed sync. Such a sync
// succeeds although data is lost.
func (d *Disk) Breaches() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.breaches)
}

// Boot begins the life of a process.
func (d *Disk) Boot() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.boots++
	d.dead = false
}

// Kill ends the process: whatever it still does has no effect.
func (d *Disk) Kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dead = true
}

// PowerCut changes the disk to a state that a power cut may leave. The process must be dead.
func (d *Disk) PowerCut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	inOrder := d.dice.IntN(2) == 0 // as a journal keeps them
	for _, c := range d.renames {
		if d.dice.IntN(2) == 0 {
			d.durable = c.apply(d.durable)
		} else if inOrder {
			break
		}
	}
	d.forget()
	for _, name := range d.sorted() {
		d.names[name].powerCut(d.dice)
	}
}

// forget leaves the durable names alone, of those the ones whose directories are there.
func (d *Disk) forget() {
	maps.DeleteFunc(d.durable, func(name string, _ *Inode) bool { return !isReachable(d.durable, name) })
	d.names, d.renames = maps.Clone(d.durable), nil
}

func (d *Disk) sorted() []string { return slices.Sorted(maps.Keys(d.names)) }

func isReachable(names map[string]*Inode, name string) bool {
	dir := filepath.Dir(name)
	return dir == name || names[dir] != nil && isReachable(names, dir)
}

func (c nameChange) apply(names map[string]*Inode) map[string]*Inode {
	if c.from != "" && names[c.from] == c.inode {
		delete(names, c.from)
	}
	if c.name != "" {
		delete(names, c.name)
		if c.inode != nil {
			names[c.name] = c.inode
		}
	}
	return names
}

func (d *Disk) change(c nameChange) {
	d.names = c.apply(d.names)
	d.renames = append(d.renames, c)
}

// syncDir makes the names in dir durable. Of a change that is about another directory
// too, the other half stays.
func (d *Disk) syncDir(dir string) {
	inside := func(name string, _ *Inode) bool { return filepath.Dir(name) == dir && name != dir }
	maps.DeleteFunc(d.durable, inside)
	for name, i := range d.names {
		if inside(name, i) {
			d.durable[name] = i
		}
	}
	var left []nameChange
	for _, c := range d.renames {
		if filepath.Dir(c.name) == dir {
			c.name = ""
		}
		if c.from != "" && filepath.Dir(c.from) == dir {
			c.from = ""
		}
		if c.name != "" || c.from != "" {
			left = append(left, c)
		}
	}
	d.renames = left
}

// alive fails when the process was killed. Callers hold mu.
func (f process) alive() error {
	if f.boot != f.boots || f.dead {
		return ErrKilled
	}
	return nil
}

// Process is the file system as one process sees it.
func (d *Disk) Process() disk.FS { return process{d, d.boots} }

type process struct {
	*Disk
	boot int
}

func (f process) Mkdir(dir string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.alive(); err != nil {
		return err
	}
	if f.names[dir] != nil {
		return &fs.PathError{Op: "mkdir", Path: dir, Err: fs.ErrExist}
	}
	if missing := f.missingDir("mkdir", dir); missing != nil {
		return missing
	}
	f.change(nameChange{name: dir, inode: &Inode{isDir: true}})
	return nil
}

// missingDir is the error of an operation on a name whose directory is missing.
func (f process) missingDir(op, name string) error {
	if dir := f.names[filepath.Dir(name)]; dir == nil || !dir.isDir {
		return &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	return nil
}

func (f process) List(dir string) ([]string, error) { return f.list(dir, false) }

func (f process) Dirs(dir string) ([]string, error) { return f.list(dir, true) }

func (f process) list(dir string, dirs bool) (names []string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.alive(); err != nil {
		return nil, err
	}
	if f.names[dir] == nil {
		return nil, &fs.PathError{Op: "list", Path: dir, Err: fs.ErrNotExist}
	}
	for name, i := range f.names {
		if filepath.Dir(name) == dir && name != dir && i.isDir == dirs {
			names = append(names, filepath.Base(name))
		}
	}
	slices.Sort(names)
	return names, nil
}

func (f process) Create(name string) (disk.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.alive(); err != nil {
		return nil, err
	}
	if err := f.missingDir("create", name); err != nil {
		return nil, err
	}
	if f.names[name] != nil {
		return nil, &fs.PathError{Op: "create", Path: name, Err: fs.ErrExist}
	}
	inode := f.newInode()
	f.change(nameChange{name: name, inode: inode})
	return &file{f, inode, name}, nil
}

func (f process) Open(name string) (disk.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.alive(); err != nil {
		return nil, err
	}
	inode := f.names[name]
	if inode == nil || inode.isDir {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &file{f, inode, name}, nil
}

func (f process) OpenWrite(name string) (disk.File, error) { return f.Open(name) }

func (f process) OpenRead(name string) (disk.File, error) { return f.Open(name) }

func (f process) Size(name string) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.alive(); err != nil {
		return 0, err
	}
	if f.names[name] == nil {
		return 0, &fs.PathError{Op: "lstat", Path: name, Err: fs.ErrNotExist}
	}
	return int64(len(f.names[name].cache)), nil
}

func (f process) Rename(from, to string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.alive(); err != nil {
		return err
	}
	if f.names[from] == nil {
		return &fs.PathError{Op: "rename", Path: from, Err: fs.ErrNotExist}
	}
	if err := f.missingDir("rename", to); err != nil {
		return err
	}
	f.change(nameChange{name: to, from: from, inode: f.names[from]})
	return nil
}

func (f process) Remove(name string) error { return f.remove(name, false) }

func (f process) RemoveDir(dir string) error { return f.remove(dir, true) }

func (f process) remove(name string, isDir bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.alive(); err != nil {
		return err
	}
	inode := f.names[name]
	switch {
	case inode == nil:
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	case inode.isDir && !isDir:
		return &fs.PathError{Op: "remove", Path: name, Err: unix.EISDIR}
	}
	for other := range f.names {
		if filepath.Dir(other) == name && other != name {
			return &fs.PathError{Op: "remove", Path: name, Err: unix.ENOTEMPTY}
		}
	}
	f.change(nameChange{name: name})
	return nil
}

func (f process) SyncDir(dir string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.alive(); err != nil {
		return err
	}
	if f.names[dir] == nil {
		return &fs.PathError{Op: "sync", Path: dir, Err: fs.ErrNotExist}
	}
	f.syncDir(dir)
	return nil
}

// Space is more than any test takes.
func (f process) Space(string) (total, free int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return 1 << 40, 1 << 40, f.alive()
}

func (f process) Lock(string) (disk.Lock, error) { return noLock{}, nil }

func (f process) Share(string) (io.Closer, error) { return noLock{}, nil }

type noLock struct{}

func (noLock) Close() error { return nil }
func (noLock) Check() error { return nil }

// Clone returns a copy of the disk, to look at one of several outcomes. Files for which
// isEmpty returns true have no content in the copy.
func (d *Disk) Clone(dice *rand.Rand, isEmpty func(name string) bool) *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	copies := map[*Inode]*Inode{nil: nil}
	for name, i := range d.names {
		if isEmpty(name) {
			copies[i] = d.newInode()
		}
	}
	inode := func(i *Inode) *Inode {
		if _, ok := copies[i]; !ok {
			copies[i] = &Inode{cache: slices.Clone(i.cache), disk: slices.Clone(i.disk), dirty: maps.Clone(i.dirty), isDir: i.isDir, sector: i.sector}
		}
		return copies[i]
	}
	c := New(dice)
	c.names, c.durable = map[string]*Inode{}, map[string]*Inode{}
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

// Cut is a power cut whose outcome is given: whether names that were not synced
// stay, and which pages do.
func (d *Disk) Cut(names bool, pages func(page int) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if names {
		d.durable = maps.Clone(d.names)
	}
	d.forget()
	for _, i := range d.names {
		for page := range i.dirty {
			if pages(page) {
				for at := page * PageBytes; at < (page+1)*PageBytes; at += i.sector {
					i.flush(at)
				}
			}
		}
		clear(i.dirty)
		i.cache = slices.Clone(i.disk)
	}
}

// Names returns the names of the files, sorted.
func (d *Disk) Names() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(d.sorted(), func(name string) bool { return d.names[name].isDir })
}

// File returns the file of this name, or nil.
func (d *Disk) File(name string) *Inode {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.names[name]
}

// Restore gives a file the name that it has lost.
func (d *Disk) Restore(name string, i *Inode) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names[name] = i
}

// Inode is a file, whatever its name. Call its methods only while no process works.
type Inode struct {
	cache, disk []byte
	dirty       map[int]bool // pages of cache that a sync writes
	isDir       bool
	sector      int // of the disk
	failedIn    int // boot in which a sync failed
}

func (d *Disk) newInode() *Inode { return &Inode{dirty: map[int]bool{}, sector: d.sector} }

// Content is the file as a process reads it.
func (i *Inode) Content() []byte { return i.cache }

// Persist makes durable what the test has changed in Content.
func (i *Inode) Persist() { i.disk = slices.Clone(i.cache) }

// Lose drops the unsynced content of these pages, so that no later sync writes it, and
// writes the other pages. Without pages it drops all of them.
func (i *Inode) Lose(pages ...int) {
	if len(pages) == 0 {
		clear(i.dirty)
	}
	for _, page := range pages {
		delete(i.dirty, page)
	}
	i.flushPages(func() bool { return true })
}

// flush brings a sector of the cache to the disk.
func (i *Inode) flush(from int) {
	to := min(from+i.sector, len(i.cache))
	if to <= from {
		return
	}
	if to > len(i.disk) {
		i.disk = append(i.disk, make([]byte, to-len(i.disk))...)
	}
	copy(i.disk[from:to], i.cache[from:to])
}

// flushPages brings the dirty pages to the disk, or what dice let through.
func (i *Inode) flushPages(through func() bool) {
	for _, page := range slices.Sorted(maps.Keys(i.dirty)) {
		for sector := page * PageBytes; sector < (page+1)*PageBytes; sector += i.sector {
			if through() {
				i.flush(sector)
			}
		}
	}
	clear(i.dirty)
}

func (i *Inode) resizeDisk(size int) {
	if size > len(i.disk) {
		i.disk = append(i.disk, make([]byte, size-len(i.disk))...)
	}
	i.disk = i.disk[:size]
}

func (i *Inode) powerCut(dice *rand.Rand) {
	i.flushPages(someOf(dice))
	if dice.IntN(2) == 0 && len(i.cache) > len(i.disk) {
		i.resizeDisk(len(i.disk) + dice.IntN(len(i.cache)-len(i.disk)+1)) // zeros
	}
	i.cache = slices.Clone(i.disk)
}

// someOf lets nothing, everything or a part through.
func someOf(dice *rand.Rand) func() bool {
	share := []float64{0, 0.5, 0.9, 1}[dice.IntN(4)]
	return func() bool { return dice.Float64() < share }
}

type file struct {
	process
	inode *Inode
	name  string
}

func (f *file) ReadAt(p []byte, off int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.alive(); err != nil {
		return 0, err
	}
	if off >= int64(len(f.inode.cache)) {
		return 0, io.EOF
	}
	n := copy(p, f.inode.cache[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *file) WriteAt(p []byte, off int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.alive(); err != nil {
		return 0, err
	}
	i := f.inode
	if end := int(off) + len(p); end > len(i.cache) {
		i.cache = append(i.cache, make([]byte, end-len(i.cache))...)
	}
	copy(i.cache[off:], p)
	for page := int(off) / PageBytes; page*PageBytes < int(off)+len(p); page++ {
		i.dirty[page] = true
	}
	return len(p), nil
}

func (f *file) Sync() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.alive(); err != nil {
		return err
	}
	if f.inode.failedIn == f.boot {
		f.breaches = append(f.breaches, f.name)
	}
	f.inode.flushPages(func() bool { return true })
	f.inode.resizeDisk(len(f.inode.cache))
	return nil
}

func (f *file) Truncate(size int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.alive(); err != nil {
		return err
	}
	f.inode.cache = f.inode.cache[:min(int(size), len(f.inode.cache))]
	return nil
}

func (f *file) Allocate(size int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.alive(); err != nil {
		return err
	}
	if more := int(size) - len(f.inode.cache); more > 0 {
		f.inode.cache = append(f.inode.cache, make([]byte, more)...)
	}
	return nil
}

func (f *file) Size() (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.alive(); err != nil {
		return 0, err
	}
	return int64(len(f.inode.cache)), nil
}

func (f *file) IsRemoved() (bool, error) { return false, nil }

func (f *file) Check() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.alive(); err != nil {
		return err
	}
	if f.names[f.name] != f.inode {
		return &fs.PathError{Op: "look at", Path: f.name, Err: fs.ErrNotExist}
	}
	return nil
}

// Data takes blocks of zeros for never written.
func (f *file) Data(off int64) (from, to int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.alive(); err != nil {
		return 0, 0, err
	}
	size := int64(len(f.inode.cache))
	from = off
	for from < size && !f.inode.isWritten(from) {
		from = min(size, f.inode.nextSector(from))
	}
	to = from
	for to < size && f.inode.isWritten(to) {
		to = min(size, f.inode.nextSector(to))
	}
	return from, to, nil
}

func (i *Inode) nextSector(off int64) int64 { return (off/int64(i.sector) + 1) * int64(i.sector) }

// isWritten reports whether the sector that off is in has anything from there on.
func (i *Inode) isWritten(off int64) bool {
	sector := i.cache[off:min(int64(len(i.cache)), i.nextSector(off))]
	return slices.ContainsFunc(sector, func(b byte) bool { return b != 0 })
}

func (f *file) Prefetch(_, _ int64) {}

func (f *file) Close() error { return nil }

// loseDirty is what a failed sync does in Linux: the pages count as clean.
func (f *file) loseDirty() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.inode.failedIn == f.boot {
		f.breaches = append(f.breaches, f.name)
	}
	f.inode.failedIn = f.boot
	clear(f.inode.dirty)
}
