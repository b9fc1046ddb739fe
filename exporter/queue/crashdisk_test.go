package queue

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
)

const (
	pageBytes   = 4096 // what the page cache marks dirty
	sectorBytes = 512  // what a disk writes whole
)

var errKilled = errors.New("the process was killed")

// crashDisk is a disk in memory with a page cache before it. It fails when dice
// say so and forgets what a power cut takes: dirty pages sector by sector, and
// names that were not synced. After a failed sync the pages count as clean, as in
// Linux: reads still show them, no later sync writes them.
type crashDisk struct {
	mu      sync.Mutex
	dice    *rand.Rand
	names   map[string]*crashInode // as the process sees them
	durable map[string]*crashInode // as a power cut leaves them
	renames []nameChange           // not synced, in order

	boots  int     // files opened before the last one are of no use
	left   int     // operations until the process is killed; negative: never
	faults float64 // share of the writing operations that fail
	reads  float64 // share of the reading operations that fail
	killed func()  // called once when the process is killed
}

// nameChange gives the name to an inode, none when inode is nil, and takes it
// from the name from.
type nameChange struct {
	name, from string
	inode      *crashInode
}

func newCrashDisk(dice *rand.Rand) *crashDisk {
	return &crashDisk{dice: dice, names: map[string]*crashInode{}, durable: map[string]*crashInode{}, left: -1}
}

// boot begins the life of a process that is killed after some operations.
func (d *crashDisk) boot(operations int, killed func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.boots++
	d.left, d.killed, d.faults, d.reads = operations, killed, 0, 0
}

// kill ends the process: whatever it still does has no effect.
func (d *crashDisk) kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.die()
}

func (d *crashDisk) die() {
	if d.left != 0 {
		d.left = 0
		d.killed()
	}
}

func (d *crashDisk) setFaults(writes, reads float64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults, d.reads = writes, reads
}

// powerCut leaves what a disk may hold after one. The process must be dead.
func (d *crashDisk) powerCut() {
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
	d.names, d.renames = maps.Clone(d.durable), nil
	for _, name := range slices.Sorted(maps.Keys(d.names)) {
		d.names[name].powerCut(d.dice)
	}
}

func (c nameChange) apply(names map[string]*crashInode) map[string]*crashInode {
	if c.from != "" && names[c.from] == c.inode {
		delete(names, c.from)
	}
	delete(names, c.name)
	if c.inode != nil {
		names[c.name] = c.inode
	}
	return names
}

func (d *crashDisk) change(c nameChange) {
	d.names = c.apply(d.names)
	d.renames = append(d.renames, c)
}

// step is called before an operation, with mu held. fault is not nil when it
// fails after having done whatever dice decide.
func (d *crashDisk) step(boot int, share float64) (fault error) {
	if boot != d.boots || d.left == 0 {
		return errKilled
	}
	if d.left > 0 {
		if d.left == 1 {
			d.die()
			return errKilled
		}
		d.left--
	}
	if d.dice.Float64() < share {
		return []error{unix.EIO, unix.ENOSPC}[d.dice.IntN(2)]
	}
	return nil
}

// half reports whether a failing operation takes effect all the same.
func (d *crashDisk) half(fault error) bool {
	return fault == nil || !errors.Is(fault, errKilled) && d.dice.IntN(2) == 0
}

// process is the file system as one process sees it.
func (d *crashDisk) process() FS { return crashFS{d, d.boots} }

type crashFS struct {
	*crashDisk
	boot int
}

func (f crashFS) MkdirAll(string) error { return nil }

func (f crashFS) List(dir string) (names []string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.step(f.boot, f.reads); err != nil {
		return nil, err
	}
	for name := range f.names {
		if filepath.Dir(name) == dir {
			names = append(names, filepath.Base(name))
		}
	}
	slices.Sort(names)
	return names, nil
}

func (f crashFS) Create(name string) (File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.step(f.boot, f.faults); err != nil {
		return nil, err
	}
	if f.names[name] != nil {
		return nil, &fs.PathError{Op: "create", Path: name, Err: fs.ErrExist}
	}
	inode := &crashInode{dirty: map[int]bool{}}
	f.change(nameChange{name: name, inode: inode})
	return &crashFile{f, inode}, nil
}

func (f crashFS) Open(name string) (File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.step(f.boot, f.reads); err != nil {
		return nil, err
	}
	inode := f.names[name]
	if inode == nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &crashFile{f, inode}, nil
}

func (f crashFS) Rename(from, to string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.step(f.boot, f.faults)
	if !f.half(err) {
		return err
	}
	if f.names[from] == nil {
		return &fs.PathError{Op: "rename", Path: from, Err: fs.ErrNotExist}
	}
	f.change(nameChange{name: to, from: from, inode: f.names[from]})
	return err
}

func (f crashFS) Remove(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.step(f.boot, f.faults)
	if !f.half(err) {
		return err
	}
	if f.names[name] == nil {
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	}
	f.change(nameChange{name: name})
	return err
}

func (f crashFS) SyncDir(string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.step(f.boot, f.faults)
	if f.half(err) {
		f.durable, f.renames = maps.Clone(f.names), nil
	}
	return err
}

// Space is more than any test takes.
func (f crashFS) Space(string) (total, free int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return 1 << 40, 1 << 40, f.step(f.boot, f.reads)
}

func (f crashFS) Lock(string) (Lock, error) { return noLock{}, nil }

type noLock struct{}

func (noLock) Close() error { return nil }
func (noLock) Check() error { return nil }

// crashInode is a file, whatever its name.
type crashInode struct {
	cache, disk []byte
	dirty       map[int]bool // pages of cache that a sync writes
}

// flush brings a sector of the cache to the disk.
func (i *crashInode) flush(from int) {
	to := min(from+sectorBytes, len(i.cache))
	if to <= from {
		return
	}
	if to > len(i.disk) {
		i.disk = append(i.disk, make([]byte, to-len(i.disk))...)
	}
	copy(i.disk[from:to], i.cache[from:to])
}

// flushPages brings the dirty pages to the disk, or what dice let through.
func (i *crashInode) flushPages(through func() bool) {
	for _, page := range slices.Sorted(maps.Keys(i.dirty)) {
		for sector := page * pageBytes; sector < (page+1)*pageBytes; sector += sectorBytes {
			if through() {
				i.flush(sector)
			}
		}
	}
	clear(i.dirty)
}

func (i *crashInode) resizeDisk(size int) {
	if size > len(i.disk) {
		i.disk = append(i.disk, make([]byte, size-len(i.disk))...)
	}
	i.disk = i.disk[:size]
}

func (i *crashInode) powerCut(dice *rand.Rand) {
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

type crashFile struct {
	crashFS
	inode *crashInode
}

func (f *crashFile) ReadAt(p []byte, off int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.step(f.boot, f.reads); err != nil {
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

func (f *crashFile) WriteAt(p []byte, off int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	alive := f.boot == f.boots && f.left != 0
	err := f.step(f.boot, f.faults)
	if !alive {
		return 0, err
	}
	if err != nil {
		p = p[:f.dice.IntN(len(p)+1)] // also when the process is killed by this very write
	}
	i := f.inode
	if end := int(off) + len(p); end > len(i.cache) {
		i.cache = append(i.cache, make([]byte, end-len(i.cache))...)
	}
	copy(i.cache[off:], p)
	for page := int(off) / pageBytes; page*pageBytes < int(off)+len(p); page++ {
		i.dirty[page] = true
	}
	return len(p), err
}

func (f *crashFile) Sync() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.step(f.boot, f.faults)
	switch {
	case errors.Is(err, errKilled):
	case err != nil:
		f.inode.flushPages(someOf(f.dice))
	default:
		f.inode.flushPages(func() bool { return true })
		f.inode.resizeDisk(len(f.inode.cache))
	}
	return err
}

func (f *crashFile) Truncate(size int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.step(f.boot, f.faults); err != nil {
		return err
	}
	f.inode.cache = f.inode.cache[:min(int(size), len(f.inode.cache))]
	return nil
}

func (f *crashFile) Allocate(size int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.step(f.boot, f.faults)
	if more := int(size) - len(f.inode.cache); more > 0 && err == nil {
		f.inode.cache = append(f.inode.cache, make([]byte, more)...)
	}
	return err
}

func (f *crashFile) Size() (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.step(f.boot, f.reads); err != nil {
		return 0, err
	}
	return int64(len(f.inode.cache)), nil
}

func (f *crashFile) IsRemoved() (bool, error) { return false, nil }

// Data takes blocks of zeros for never written.
func (f *crashFile) Data(off int64) (from, to int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.step(f.boot, f.reads); err != nil {
		return 0, 0, err
	}
	size := int64(len(f.inode.cache))
	from = off
	for from < size && !f.inode.isWritten(from) {
		from = min(size, nextSector(from))
	}
	to = from
	for to < size && f.inode.isWritten(to) {
		to = min(size, nextSector(to))
	}
	return from, to, nil
}

func nextSector(off int64) int64 { return (off/sectorBytes + 1) * sectorBytes }

// isWritten reports whether the sector that off is in has anything from there on.
func (i *crashInode) isWritten(off int64) bool {
	sector := i.cache[off:min(int64(len(i.cache)), nextSector(off))]
	return slices.ContainsFunc(sector, func(b byte) bool { return b != 0 })
}

func (f *crashFile) Prefetch(_, _ int64) {}

func (f *crashFile) Close() error { return nil }
