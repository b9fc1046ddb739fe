package gatekeepersource

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/sources/statefile"
)

const (
	// maxClaims bounds the files that wait to be read. Gatekeeper makes some one a
	// minute: it is days of them.
	maxClaims = 4096
	// maxOpen bounds those of them that are open files. It leaves most of the smallest
	// usual limit of a process, 1,024, to everything else.
	maxOpen = 256
	// retryPause is how long a file that could not be read is left alone.
	retryPause = 10 * time.Second
)

// stage is how far a claimed file has come.
type stage uint8

const (
	live    stage = iota // Gatekeeper writes it: held open, not read
	ready                // as it will stay: it can be read
	reading              // by the reader
	done                 // read, and durable in the queue; not yet in the state on disk
)

// claim is a file whose content cannot be taken away any more, unless it is a gap.
// Guarded by inventory.mu, but for f, which its reader uses.
type claim struct {
	id      string
	channel string
	file    string // its name, below channel
	name    fileName
	inode   uint64
	size    int64 // of what is read: it does not grow any more once it is ready
	stage   stage
	f       *os.File // nil: the file has a name among the claims
	retryAt time.Time

	abandoned bool // Gatekeeper has left it unfinished
	unnamed   bool // it had no name any more when it was taken
	renamed   bool // the queue has other lines under its name; its reader's
	gap       bool // there is nothing to read: it was gone before it could be claimed
}

// unfinished says that Gatekeeper may not have written all of the file.
func (c *claim) unfinished() bool { return c.abandoned || c.unnamed }

// path is where the file is or was, below the path of the source.
func (c *claim) path() string { return path.Join(c.channel, c.file) }

// inventory is what docket has of Gatekeeper's files: what it has claimed, and what it
// remembers of the rest. The scanner fills it, the reader empties it.
type inventory struct {
	src    *source
	wake   chan struct{} // the reader has something to look at
	relook chan struct{} // the scanner has

	saving sync.Mutex // held while the state is written; taken before mu

	mu     sync.Mutex
	claims map[string]*claim // by id
	state  state
	dirty  bool // state is not what is on disk
	saved  time.Time
	shelf  *dir // where claims have their names; nil: it could not be made
	noLink bool // it was said why a claim has no name
}

// openInventory finds what was known before a restart.
func openInventory(src *source) (*inventory, error) {
	st, damaged, err := loadState(src.env.StateDir)
	if err != nil {
		return nil, err
	}
	if damaged != nil {
		src.env.Log.Error("state is damaged: files that are still there are read again, and what is known of them is not stored twice", "error", damaged)
	}
	v := &inventory{
		src: src, wake: make(chan struct{}, 1), relook: make(chan struct{}, 1),
		claims: make(map[string]*claim), state: st,
	}
	v.openShelf()
	return v, nil
}

func (v *inventory) close() {
	for _, c := range v.claims {
		if c.f != nil {
			c.f.Close()
		}
	}
	if v.shelf != nil {
		v.shelf.close()
	}
}

// open opens the content of a claim. close does what is to be done with it at the end.
func (v *inventory) open(c *claim) (f *os.File, closeFile func(), err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if c.f != nil {
		return c.f, func() {}, nil
	}
	f, _, err = v.shelf.open(claimName(c))
	if err != nil {
		return nil, nil, err
	}
	return f, func() { f.Close() }, nil
}

// next returns the oldest file that can be read, for one reader to read; nil: there is
// none.
func (v *inventory) next(now time.Time) *claim {
	v.mu.Lock()
	defer v.mu.Unlock()
	var oldest *claim
	for _, c := range v.claims {
		if c.stage == ready && !now.Before(c.retryAt) && (oldest == nil || c.before(oldest)) {
			oldest = c
		}
	}
	if oldest != nil {
		oldest.stage = reading
	}
	return oldest
}

func (c *claim) before(d *claim) bool {
	if n := c.name.at.Compare(d.name.at); n != 0 {
		return n < 0
	}
	return c.id < d.id
}

// postpone leaves a file that could not be read for later.
func (v *inventory) postpone(c *claim, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	c.stage, c.retryAt = ready, now.Add(retryPause)
}

// channel is what is known of a channel.
func (v *inventory) channel(name string) channelState {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.state.Channels[name]
}

func (v *inventory) setChannel(name string, update func(*channelState)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	st := v.state.Channels[name]
	update(&st)
	v.state.Channels[name] = st
	v.dirty = true
}

// finish notes that a file was read and is durable in the queue. Among many files the
// state is not written for each: those it lacks are recognised by the queue.
func (v *inventory) finish(c *claim) {
	v.mu.Lock()
	if !c.gap {
		v.state.Done[c.id] = doneFile{Channel: c.channel, Size: c.size}
	}
	v.forgetSeen(c.channel, c.name.stem)
	c.stage = done
	v.dirty = true
	// One that was held open would be taken for lost, were it gone after a crash.
	due := c.f != nil || time.Since(v.saved) >= saveInterval
	v.mu.Unlock()
	if due {
		_ = v.save() // it is tried again, and reported
	}
}

// save makes the state durable and lets go of the files that it says are read. A state
// that cannot be written is reported, and tried again at the next scan.
func (v *inventory) save() error {
	v.saving.Lock()
	defer v.saving.Unlock()
	v.mu.Lock()
	if !v.dirty {
		v.mu.Unlock()
		return nil
	}
	st := v.state.clone()
	v.dirty, v.saved = false, time.Now()
	var finished []*claim
	for _, c := range v.claims {
		if c.stage == done {
			finished = append(finished, c)
		}
	}
	v.mu.Unlock()

	if err := statefile.Save(statePath(v.src.env.StateDir), st); err != nil {
		v.mu.Lock()
		v.dirty = true
		v.mu.Unlock()
		v.src.troubles.set("state", fmt.Sprintf("cannot write what was read: %v: after a restart files are read again", err))
		return err
	}
	v.src.troubles.set("state", "")
	v.drop(finished)
	return nil
}

func (v *inventory) drop(finished []*claim) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, c := range finished {
		if c.f != nil {
			c.f.Close()
		} else if !c.gap {
			// What stays behind is dropped after the next restart.
			if err := v.shelf.unlink(claimName(c)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				v.src.env.Log.Warn("cannot remove a file that was read", "directory", v.shelfPath(), "error", err)
			}
		}
		delete(v.claims, c.id)
	}
	poke(v.relook) // what was read may be deleted now
}

// remember notes a file that is not claimed in a way that outlives this process. Called
// with mu held.
func (v *inventory) remember(channel, file, stem string) {
	key := stemKey(channel, stem)
	seen := seenFile{Channel: channel, File: file}
	if v.state.Seen[key] != seen {
		v.state.Seen[key] = seen
		v.dirty = true
	}
}

// wasRead reports whether a file of that stem was read and has not been gone since.
// Called with mu held.
func (v *inventory) wasRead(channel, stem string) bool {
	suffix := "-" + stemKey(channel, stem)
	for id := range v.state.Done {
		if strings.HasSuffix(id, suffix) {
			return true
		}
	}
	return false
}

// forgetSeen undoes remember. Called with mu held.
func (v *inventory) forgetSeen(channel, stem string) {
	key := stemKey(channel, stem)
	if _, ok := v.state.Seen[key]; ok {
		delete(v.state.Seen, key)
		v.dirty = true
	}
}

// room reports whether one more file can be claimed. Called with mu held.
func (v *inventory) room() bool {
	open := 0
	for _, c := range v.claims {
		if c.f != nil {
			open++
		}
	}
	return len(v.claims) < maxClaims && open < maxOpen
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// missing reports an error that says that a name is not there, or is that of something
// else than it was a moment before.
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ESTALE)
}
