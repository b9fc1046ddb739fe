package deadletter

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// sector is what testDisk writes whole. It is smaller than a line, so that a power
// cut leaves parts of one.
const sector = 64

var errKilled = errors.New("the process was killed")

// testDisk is a disk in memory with a page cache before it. It fails at the operation
// asked for and forgets what a power cut takes. After a failed sync the pages count as
// clean, as in Linux: reads still show them, no later sync writes them.
type testDisk struct {
	mu      sync.Mutex
	dice    *rand.Rand
	names   map[string]*inode // as the process sees them
	durable map[string]*inode // as a power cut leaves them
	changes []func(map[string]*inode)

	boot       int            // files opened before the last one are of no use
	operations int            // of this boot that change something
	killAt     int            // the process is killed at this one; 0: never
	breaches   []string       // syncs of a file whose sync has failed
	seen       map[string]int // operations by their kind
	// fails returns the failure of an operation. nil: there are none.
	fails func(op int, kind string) error
}

func newTestDisk(dice *rand.Rand) *testDisk {
	return &testDisk{dice: dice, names: map[string]*inode{}, durable: map[string]*inode{}, seen: map[string]int{}}
}

type inode struct {
	live, durable []byte
	dirty         map[int]bool // sectors
	syncFailed    int          // boot in which a sync failed
}

// restart ends the process, if it has not been killed, and begins the next.
func (d *testDisk) restart() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.boot++
	d.operations, d.killAt, d.fails = 0, 0, nil
}

// powerCut leaves what a disk may hold after one.
func (d *testDisk) powerCut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	inOrder := d.dice.IntN(2) == 0 // as a journal keeps them
	for _, change := range d.changes {
		if d.dice.IntN(2) == 0 {
			change(d.durable)
		} else if inOrder {
			break
		}
	}
	d.names, d.changes = maps.Clone(d.durable), nil
	for _, name := range slices.Sorted(maps.Keys(d.names)) {
		d.names[name].powerCut(d.dice)
	}
}

func (n *inode) powerCut(dice *rand.Rand) {
	size := len(n.durable)
	if dice.IntN(2) == 0 {
		size = len(n.live)
	}
	for _, s := range slices.Sorted(maps.Keys(n.dirty)) {
		if dice.IntN(2) == 0 {
			n.persist(s)
		}
	}
	n.live = slices.Clone(resized(n.durable, size))
	n.durable, n.dirty = slices.Clone(n.live), nil
}

func (n *inode) persist(s int) {
	from := s * sector
	to := min(from+sector, len(n.live))
	if from >= to {
		return
	}
	n.durable = resized(n.durable, max(len(n.durable), to))
	copy(n.durable[from:to], n.live[from:to])
}

func resized(b []byte, size int) []byte {
	if size <= len(b) {
		return b[:size]
	}
	return append(b, make([]byte, size-len(b))...)
}

// begin is called before an operation, with mu held.
func (d *testDisk) begin(boot int, kind string) error {
	if boot != d.boot || d.killAt > 0 && d.operations >= d.killAt {
		return errKilled
	}
	d.operations++
	d.seen[kind]++
	if d.killAt > 0 && d.operations >= d.killAt {
		return errKilled
	}
	if d.fails != nil {
		return d.fails(d.operations, kind)
	}
	return nil
}

func (d *testDisk) rename(change func(map[string]*inode)) {
	change(d.names)
	d.changes = append(d.changes, change)
}

// process is the disk as one process sees it.
func (d *testDisk) process() disk { return testProcess{d, d.boot} }

type testProcess struct {
	*testDisk
	boot int
}

func (p testProcess) MakeDir(string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.begin(p.boot, "make directory")
}

func (p testProcess) Open(name string, _ bool) (file, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := p.names[name]; n != nil {
		return &testFile{p, n, name}, nil
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

func (p testProcess) Create(name string) (file, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.begin(p.boot, "create"); err != nil {
		return nil, err
	}
	n := &inode{dirty: map[int]bool{}}
	p.rename(func(names map[string]*inode) { names[name] = n })
	return &testFile{p, n, name}, nil
}

func (p testProcess) Rename(from, to string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.begin(p.boot, "rename"); err != nil {
		return err
	}
	n := p.names[from]
	p.rename(func(names map[string]*inode) {
		delete(names, from)
		names[to] = n
	})
	return nil
}

func (p testProcess) Remove(name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.names[name] == nil {
		return fs.ErrNotExist
	}
	if err := p.begin(p.boot, "remove"); err != nil {
		return err
	}
	p.rename(func(names map[string]*inode) { delete(names, name) })
	return nil
}

func (p testProcess) SyncDir(string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.begin(p.boot, "sync directory"); err != nil {
		return err
	}
	p.durable, p.changes = maps.Clone(p.names), nil
	return nil
}

// Exists knows one directory, which is always there.
func (p testProcess) Exists(name string) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return name == testDir || p.names[name] != nil, nil
}

const testDir = "/queue/deadletters/siem"

// files returns the names of the files whose name begins with prefix.
func (d *testDisk) files(prefix string) (found []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name := range d.names {
		if strings.HasPrefix(filepath.Base(name), prefix) {
			found = append(found, name)
		}
	}
	return found
}

type testFile struct {
	testProcess
	n    *inode
	name string
}

func (f *testFile) ReadAt(p []byte, off int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if off >= int64(len(f.n.live)) {
		return 0, io.EOF
	}
	n := copy(p, f.n.live[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt, when it fails, has written a part.
func (f *testFile) WriteAt(p []byte, off int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.begin(f.boot, "write")
	if err != nil {
		p = p[:f.dice.IntN(len(p)+1)]
	}
	if f.boot != f.testDisk.boot || len(p) == 0 {
		return 0, err
	}
	f.n.live = resized(f.n.live, max(len(f.n.live), int(off)+len(p)))
	copy(f.n.live[off:], p)
	for s := int(off) / sector; s <= (int(off)+len(p)-1)/sector; s++ {
		f.n.dirty = set(f.n.dirty, s)
	}
	return len(p), err
}

func set(m map[int]bool, s int) map[int]bool {
	if m == nil {
		m = map[int]bool{}
	}
	m[s] = true
	return m
}

func (f *testFile) Sync() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.begin(f.boot, "sync")
	if errors.Is(err, errKilled) {
		return err
	}
	if f.n.syncFailed == f.boot+1 {
		f.breaches = append(f.breaches, f.name)
	}
	for _, s := range slices.Sorted(maps.Keys(f.n.dirty)) {
		if err == nil || f.dice.IntN(2) == 0 {
			f.n.persist(s)
		}
	}
	f.n.dirty = nil
	if err != nil {
		f.n.syncFailed = f.boot + 1
		return err
	}
	f.n.durable = resized(f.n.durable, len(f.n.live))
	return nil
}

func (f *testFile) Truncate(size int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.begin(f.boot, "truncate"); err != nil {
		return err
	}
	f.n.live = resized(f.n.live, int(size))
	return nil
}

func (f *testFile) Size() (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return int64(len(f.n.live)), nil
}

func (f *testFile) Close() error { return nil }

var faults = []error{unix.EIO, unix.ENOSPC}
