// Package inventory tracks the files of Gatekeeper. It claims each finished file before
// Gatekeeper can delete it, hands the files to one reader, the oldest first, and reports
// files that vanished too soon.
//
//	inventory.go  the files that were claimed, and what became of them
//	scan.go       a look at all channels: each finished file is claimed
//	shelf.go      where claims have names of their own
//	state.go      what is known after a restart
//	names.go      what a file's name says of it
//	tree.go       directories, without a way out of them
package inventory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/outage"
	"github.com/docket-export/docket/sources/failures"
	"github.com/docket-export/docket/sources/statefile"
)

const (
	// maxClaims bounds the files that wait to be read. Gatekeeper makes some one a
	// minute: it is days of them.
	maxClaims = 4096
	// maxOpen bounds the claims where they are open files. It leaves most of the smallest
	// usual limit of a process, 1,024, to everything else.
	maxOpen = 256
	// retryPause is how long a file that could not be read is left alone.
	retryPause = 10 * time.Second
	// saveInterval bounds how often the state is written.
	saveInterval = time.Second
)

// stage is how far a claimed file has come.
type stage uint8

const (
	ready   stage = iota // it can be read
	reading              // by the reader
	done                 // read, and durable in the queue; not yet in the state on disk
)

// File describes a file of Gatekeeper, or one that is gone.
type File struct {
	ID      string
	Channel string
	Name    string // below the channel
	Stem    string // what stays of the name while the file is written, finished and deleted
	Inode   uint64 // of Gatekeeper's file, which may have been copied
	Size    int64  // of what is read
	IsRun   bool   // an audit; otherwise a segment of admission decisions

	IsAbandoned bool // Gatekeeper has left it unfinished
	IsGap       bool // there is nothing to read: it was gone before it could be claimed
}

// Path is where the file is or was, below the path of the source.
func (f *File) Path() string { return path.Join(f.Channel, f.Name) }

// claim is a file whose content cannot be taken away any more, unless it is a gap.
// Guarded by Inventory.mu, but for f, which its reader uses.
type claim struct {
	File
	at      time.Time // when the file was begun
	stage   stage
	f       *os.File // nil: the file has a name on the shelf
	retryAt time.Time
}

func newClaim(channel, file string, inode uint64) *claim {
	name := parseName(file)
	return &claim{
		File: File{
			ID: fileID(channel, name.stem, inode), Channel: channel, Name: file, Stem: name.stem, Inode: inode,
			IsRun: name.kind.isRun(), IsAbandoned: name.kind == liveRun,
		},
		at: name.at,
	}
}

// Options say what is looked at, and where claims are kept.
type Options struct {
	Path            string // of the Connection
	DeleteAfterRead bool
	StateDir        disk.Path
	// HoldOpen: claims get no name below StateDir, because their contents must not be
	// stored there.
	HoldOpen bool
	// Poll is how often docket looks for files.
	Poll time.Duration
	// RestFor is how long an audit that a newer one supersedes must not have been written to,
	// to count as abandoned.
	RestFor  time.Duration
	Failures *failures.List
	Gaps     *Gaps
	Log      *slog.Logger
}

// Gaps counts the files that were gone before they could be claimed, through several
// inventories of one process.
type Gaps struct {
	lost    atomic.Uint64
	bytes   atomic.Uint64
	foreign atomic.Uint64
	pending map[string]bool // those counted that are not durable yet; the scanner's
}

// Lost is how many there were.
func (g *Gaps) Lost() uint64 { return g.lost.Load() }

// Bytes is how many they had at least.
func (g *Gaps) Bytes() uint64 { return g.bytes.Load() }

// Foreign is how many files at the path were not Gatekeeper's.
func (g *Gaps) Foreign() uint64 { return g.foreign.Load() }

// Inventory is what docket has of Gatekeeper's files: what it has claimed, and what it
// remembers of the rest. Watch fills it, one reader empties it.
type Inventory struct {
	Options
	wake chan struct{} // the reader has something to look at

	saving sync.Mutex // held while the state is written; taken before mu

	mu     sync.Mutex
	claims map[string]*claim // by id
	state  state
	dirty  bool // state is not what is on disk
	saved  time.Time
	said   outage.Log // of files that cannot be removed

	missing map[string]bool   // files that the last look did not find, by stemKey; the scanner's
	odd     map[string]string // what was not Gatekeeper's at the last look, by place; the scanner's
}

// Open finds what was known before a restart. Close the Inventory when Watch has returned.
func Open(o Options) (*Inventory, error) {
	st, damaged, err := loadState(o.StateDir)
	if err != nil {
		return nil, err
	}
	if damaged != nil {
		o.Log.Error("state is damaged: docket reads the remaining files again and recognises the records that it has", "error", damaged)
	}
	v := &Inventory{Options: o, wake: make(chan struct{}, 1), claims: make(map[string]*claim), state: st}
	if o.Gaps.pending == nil {
		o.Gaps.pending = make(map[string]bool)
	}
	v.takeShelf()
	return v, nil
}

// Close lets go of all claims.
func (v *Inventory) Close() {
	for _, c := range v.claims {
		if c.f != nil {
			c.f.Close()
		}
	}
}

// Wake fires when Next may have more.
func (v *Inventory) Wake() <-chan struct{} { return v.wake }

// Watch looks for files again and again, until ctx is done, and once more.
func (v *Inventory) Watch(ctx context.Context) {
	tick := time.NewTicker(v.Poll)
	defer tick.Stop()
	for {
		v.scan()
		v.restore()
		select {
		case <-tick.C:
		case <-ctx.Done():
			v.scan()
			return
		}
	}
}

// restore writes the state when it is due, and again when somebody has removed it: without it a
// restart would read again what still lies at the path.
func (v *Inventory) restore() {
	there, err := statePath(v.StateDir).Exists()
	v.mu.Lock()
	v.dirty = v.dirty || err == nil && !there
	due := v.dirty && time.Since(v.saved) >= saveInterval
	v.mu.Unlock()
	if due {
		_ = v.Save() // it is tried again, and reported
	}
}

// ErrGone says that a file is not among the claims any more.
var ErrGone = errors.New("the file is gone")

// Content opens the content of a claim. Call closeFile at the end. An error is ErrGone,
// or an error of the system.
func (v *Inventory) Content(of File) (f *os.File, closeFile func(), err error) {
	v.mu.Lock()
	f = v.claims[of.ID].f
	v.mu.Unlock()
	if f != nil {
		return f, func() {}, nil
	}
	f, err = v.shelf(claimName(of)).Rooted().Open()
	if missing(err) {
		err = ErrGone
	}
	return f, func() { f.Close() }, err
}

// Next returns the oldest file that can be read, or false if there is none. There is one
// reader. It then calls Finish, Lose or Postpone.
func (v *Inventory) Next(now time.Time) (File, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	var oldest *claim
	for _, c := range v.claims {
		if c.stage == ready && !now.Before(c.retryAt) && (oldest == nil || c.before(oldest)) {
			oldest = c
		}
	}
	if oldest == nil {
		return File{}, false
	}
	oldest.stage = reading
	return oldest.File, true
}

func (c *claim) before(d *claim) bool {
	if n := c.at.Compare(d.at); n != 0 {
		return n < 0
	}
	return c.ID < d.ID
}

// Postpone leaves a file that could not be read for later.
func (v *Inventory) Postpone(f File, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	c := v.claims[f.ID]
	c.stage, c.retryAt = ready, now.Add(retryPause)
}

// Lose lets go of a file that somebody has taken off the shelf. If it still has its name
// at Gatekeeper it is claimed again, otherwise it has vanished.
func (v *Inventory) Lose(f File) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.claims, f.ID)
	v.remember(f.Channel, f.Name, f.Stem, f.Size)
}

// Channel is what is known of a channel.
func (v *Inventory) Channel(name string) Channel {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.state.Channels[name]
}

// SetChannel changes what is known of a channel.
func (v *Inventory) SetChannel(name string, update func(*Channel)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	st := v.state.Channels[name]
	update(&st)
	v.state.Channels[name] = st
	v.dirty = true
}

// Finish notes that a file was read and is durable in the queue. Among many files the
// state is not written for each file: the queue recognises files that the state lacks.
func (v *Inventory) Finish(f File) {
	v.mu.Lock()
	c := v.claims[f.ID]
	if !c.IsGap {
		v.state.Done[c.ID] = doneFile{Channel: c.Channel, Size: c.Size}
	}
	v.forgetSeen(c.Channel, c.Stem)
	c.stage = done
	v.dirty = true
	// One that was held open would be taken for lost, were it gone after a crash.
	due := c.f != nil || time.Since(v.saved) >= saveInterval
	v.mu.Unlock()
	if due {
		_ = v.Save() // it is tried again, and reported
	}
}

// Save makes the state durable and lets go of the files that it says are read. A state
// that cannot be written is reported, and tried again at the next look.
func (v *Inventory) Save() error {
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

	if err := statefile.Save(statePath(v.StateDir), st); err != nil {
		v.mu.Lock()
		v.dirty = true
		v.mu.Unlock()
		v.Failures.Set("state", fmt.Sprintf("cannot write the list of read files: %v: after a restart docket reads files again", err))
		return err
	}
	v.Failures.Set("state", "")
	for _, c := range finished {
		v.drop(c)
	}
	return nil
}

// drop lets go of a file that was read.
func (v *Inventory) drop(c *claim) {
	switch {
	case c.f != nil:
		c.f.Close()
	case !c.IsGap:
		// What stays behind is dropped after the next restart.
		err := v.shelf(claimName(c.File)).Remove()
		if err == nil {
			v.said.Works()
		} else if !errors.Is(err, fs.ErrNotExist) && v.said.Fails(outage.Cause(err)) { // not for each file
			v.Log.Warn("cannot remove a file that was read", "directory", v.shelf(), "error", err)
		}
	}
	v.mu.Lock()
	delete(v.claims, c.ID)
	v.mu.Unlock()
}

// The methods below are called with mu held.

// remember notes a file that is not claimed in a way that outlives this process, and its size;
// 0: not known. That a file has grown is saved with what is saved next.
func (v *Inventory) remember(channel, file, stem string, size int64) {
	key := stemKey(channel, stem)
	was := v.state.Seen[key]
	v.state.Seen[key] = seenFile{Channel: channel, File: file, Size: max(was.Size, size)}
	v.dirty = v.dirty || was.Channel != channel || was.File != file
}

// forgetSeen undoes remember.
func (v *Inventory) forgetSeen(channel, stem string) {
	key := stemKey(channel, stem)
	if _, ok := v.state.Seen[key]; ok {
		delete(v.state.Seen, key)
		v.dirty = true
	}
}

// wasRead reports whether a file of that stem was read and has not been gone since.
func (v *Inventory) wasRead(channel, stem string) bool {
	suffix := "-" + stemKey(channel, stem)
	for id := range v.state.Done {
		if strings.HasSuffix(id, suffix) {
			return true
		}
	}
	return false
}

// room reports whether one more file can be claimed.
func (v *Inventory) room() bool {
	return len(v.claims) < maxClaims && !(v.HoldOpen && len(v.claims) >= maxOpen)
}

// vanished notes that a file was gone before it could be claimed.
func (v *Inventory) vanished(key string, seen seenFile) {
	c := newClaim(seen.Channel, seen.File, 0)
	c.ID, c.IsGap, c.IsAbandoned = "gap-"+key, true, false
	if v.claims[c.ID] != nil {
		return
	}
	v.claims[c.ID] = c
	if v.Gaps.pending[key] { // by a Run that ended before the record was durable
		return
	}
	v.Gaps.pending[key] = true
	v.Gaps.lost.Add(1)
	v.Gaps.bytes.Add(uint64(seen.Size))
	args := []any{"file", filepath.Join(v.Path, c.Path())}
	if seen.Size > 0 { // it had so many at least
		args = append(args, "bytes", seen.Size)
	}
	v.Log.Error("a file vanished before docket read it: its records are lost", args...)
}

// missing reports an error that says that a name is not there, or is that of something
// else than it was a moment before.
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ESTALE)
}
