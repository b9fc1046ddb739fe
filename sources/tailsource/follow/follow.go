package follow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/docket-export/docket/internal/outage"
	"github.com/docket-export/docket/sources/watch"
)

const (
	// poll is the fall-back where no change is reported: a network file system.
	poll = 5 * time.Second
	// maxHeld bounds the files that are held open while the queue is full.
	maxHeld = 256
	// maxSkipped bounds how many files beyond those are known, to count them if they go.
	maxSkipped = 1 << 12
	// clockSlack allows for a file system whose clock is not the system's.
	clockSlack = 2 * time.Second
)

// Options say what to follow.
type Options struct {
	Path string // absolute
	// Grace is how long a file is read on after its successor has contents.
	Grace time.Duration
	// Known is what was read before a restart; First says that nothing was followed then.
	Known History
	First bool
	// Claims is shared by the followers of one source; nil: there is no other.
	Claims *Claims
	// MayGo says that a missing file is no trouble: it matched a pattern.
	MayGo  bool
	Report Report
	Log    *slog.Logger
}

// Report is told how the following goes. Calls may overlap.
type Report interface {
	// Set says what is wrong with the subject about, and what to do. An empty text:
	// nothing is wrong.
	Set(about, text string)
	// Gap counts what is known to be lost, and says so in the log.
	Gap(n Lost, text string, args ...any)
}

// Lost is how much a gap is: lines where they are known, or else bytes. Both are 0 where neither is.
type Lost struct{ Lines, Bytes uint64 }

// What a Report is about.
const (
	thePath = "path"
	theHeld = "held"
)

// Follower finds the files of a log and holds them open, in the order in which they are
// to be read. It goes on while the reader waits for the queue.
type Follower struct {
	path   string
	grace  time.Duration
	log    *slog.Logger
	said   outage.Log // of the directory that cannot be listed
	report Report
	claims *Claims
	mayGo  bool
	watch  *watch.Watcher
	list   func(dir string) ([]file, error)
	wake   chan struct{} // the reader is to look again
	room   chan struct{} // the reader has finished a file

	dirs []string // that are watched; owned by scan
	real string   // where the path led last; owned by scan

	listed time.Time // when a directory had changed last that was looked at for neighbours; owned by scan

	mu      sync.Mutex
	retired bool               // nothing comes after what is held
	held    []*generation      // to be read, in order; the last is the latest
	resume  *Contents          // what was being read before the restart, until it is found
	done    []Contents         // what was read
	known   bool               // there was a file to follow: others may have come after it
	seen    time.Time          // of the generation that was being read before the restart
	beside  map[identity]bool  // are not of this log: they had other names while it had its own
	skipped map[identity]int64 // seen at the path while there was no room to hold them, and their sizes then
}

// New looks at the path for the first time: what happens from then on is not missed.
// Close the Follower when Run has returned.
func New(o Options) *Follower {
	f := &Follower{
		path: o.Path, grace: o.Grace, log: o.Log, report: o.Report, claims: o.Claims, mayGo: o.MayGo, list: list,
		watch: watch.New(poll, o.Log), wake: make(chan struct{}, 1), room: make(chan struct{}, 1),
		seen: o.Known.Seen, known: !o.First, skipped: make(map[identity]int64), beside: make(map[identity]bool),
	}
	for _, id := range o.Known.Beside {
		f.beside[id] = true
	}
	if f.claims == nil {
		f.claims = NewClaims()
	}
	f.done = slices.Clone(o.Known.Files)
	if c := o.Known.Active(); c != nil {
		own := *c
		f.resume = &own
		f.done = f.done[:len(f.done)-1]
	}
	if n := len(o.Known.Files); n > 0 {
		f.real = o.Known.Files[n-1].Real
	}
	f.scan()
	return f
}

// Wake fires when there may be more to read.
func (f *Follower) Wake() <-chan struct{} { return f.wake }

// Run looks whenever something may have changed, until ctx is done.
func (f *Follower) Run(ctx context.Context) {
	for {
		select {
		case <-f.watch.C():
		case <-f.room:
		case <-ctx.Done():
			return
		}
		f.scan()
		signal(f.wake)
	}
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // it is to look already
	}
}

// scan takes note of what is at the path now.
func (f *Follower) scan() {
	f.claims.scan.Lock()
	defer f.claims.scan.Unlock()
	p, err := f.find()
	if f.watchPlaces(p) {
		p, err = f.find() // it may have changed before it was watched
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var current file
	if err == nil {
		current, err = examinePath(p.real)
	}
	if err == nil && !current.regular {
		err = &fs.PathError{Op: "read", Path: p.real, Err: errNotRegular}
	}
	f.findResumed(p, current, err == nil)
	if err != nil {
		if !f.known { // from now on, what comes and goes is not to be missed
			f.known, f.seen = true, time.Now()
		}
		f.cannot(err)
		return
	}
	if latest := f.latest(); latest != nil && latest.identity == current.identity {
		f.report.Set(thePath, "")
		f.lookAt(latest)
		f.latest().seen = time.Now()
		f.noteBeside(p.real)
	} else {
		isFirst := !f.known
		f.begin(p.real)
		if isFirst && f.latest() != nil {
			f.noteBeside(p.real)
		}
	}
	f.noteReplaced()
}

// find is where the path leads. A link to the log of a container goes before the log does, which
// may rotate once more in between.
func (f *Follower) find() (place, error) {
	p, err := find(f.path)
	if f.mayGo && errors.Is(err, fs.ErrNotExist) && f.real != "" {
		if last, err := find(f.real); err == nil {
			last.links = append(last.links, p.links...)
			return last, nil
		}
	}
	if p.real != "" {
		f.real = p.real
	}
	return p, err
}

var errNotRegular = errors.New("not a regular file")

// cannot reports that nothing can be read at the path.
func (f *Follower) cannot(err error) {
	switch {
	case errors.Is(err, fs.ErrNotExist) && (f.mayGo || time.Since(f.lastSeen()) < poll && f.latest() != nil):
		// It is being rotated, or went for good.
	case errors.Is(err, fs.ErrNotExist):
		f.report.Set(thePath, fmt.Sprintf("%s does not exist: docket reads it as soon as it exists (%v)", f.path, err))
	case errors.Is(err, fs.ErrPermission):
		f.report.Set(thePath, fmt.Sprintf("cannot read %s: let docket's user read the file and enter its directories (%v)", f.path, err))
	default:
		f.report.Set(thePath, fmt.Sprintf("cannot read %s: %v", f.path, err))
	}
}

// watchPlaces watches what can make the path lead elsewhere, and the directory of the
// file. It reports whether that has changed.
func (f *Follower) watchPlaces(p place) bool {
	var dirs []string
	if p.real != "" {
		base, dir := filepath.Base(p.real), filepath.Dir(p.real)
		dirs = append(dirs, dir)
		// An error means that it has gone or may not be read: find tells why.
		_ = f.watch.AddWrites(dir, func(name string) bool { return name == base || isRotated(base, name) })
	}
	for _, dir := range p.links {
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
			_ = f.watch.Add(dir)
		}
	}
	slices.Sort(dirs)
	if slices.Equal(dirs, f.dirs) {
		return false
	}
	for _, dir := range f.dirs {
		if !slices.Contains(dirs, dir) {
			f.watch.Remove(dir)
		}
	}
	f.dirs = dirs
	return true
}

// The methods below are called with f.mu held.

// latest is the generation that was last found at the path; nil: there is none.
func (f *Follower) latest() *generation {
	if len(f.held) == 0 {
		return nil
	}
	return f.held[len(f.held)-1]
}

// lastSeen is when the latest generation was last seen at the path: what came after it,
// and is not there any more, was modified since.
func (f *Follower) lastSeen() time.Time {
	if g := f.latest(); g != nil {
		return g.seen
	}
	return f.seen
}

// note takes down what the contents look like, to know them again.
func (g *generation) note(size int64) {
	if g.file == nil {
		return
	}
	g.size = max(g.size, size)
	if n := int(min(size, headBytes)); n > len(g.peek) {
		if peek, err := part(g.file, 0, n); err == nil && bytes.HasPrefix(peek, g.peek) {
			g.peek = peek
		}
	}
}

// hold adds what is to be read after all that is held.
func (f *Follower) hold(gs ...*generation) {
	for _, g := range gs {
		g.seen = f.lastSeen()
		if info, err := examine(g.file); err == nil {
			g.note(info.size)
			// Where it was read before, it is out of turn: others may be older and unread.
			if g.known == nil && info.modified.After(g.seen) {
				g.seen = info.modified
			}
		}
		f.held = append(f.held, g)
		f.claims.hold(f, g.identity)
	}
	f.known = true
}

// begin begins to follow the file at the path, and before it those that were there
// since the latest was seen.
func (f *Follower) begin(path string) {
	looks := 1
	for !f.tryBegin(path, looks == maxLooks) {
		looks++
	}
}

// tryBegin is begin, unless the file at the path was replaced meanwhile and this is not the
// last try: what came after it may be among what was found before it. Then it is false.
func (f *Follower) tryBegin(path string, last bool) bool {
	file, info, err := open(path)
	if err != nil {
		f.cannot(err)
		return true
	}
	taken := slices.ContainsFunc(f.held, func(g *generation) bool { return g.isFile(info.identity) }) || f.retired || !f.claims.mine(f, file, info)
	// Once there are too many, room is made for several: each time costs a listing.
	full := len(f.held) >= maxHeld || len(f.skipped) > 0 && len(f.held) > maxHeld/2
	if taken || full {
		file.Close()
		if !taken {
			f.crowded(info)
		}
		return true
	}
	next := &generation{identity: info.identity, real: path, file: file}
	for _, c := range f.done {
		if c.identity == info.identity && c.matches(file, info.size) {
			next.known = &c // it was renamed, and has its name again
		}
	}
	if f.known {
		found, all := f.between(path, next)
		now, err := examinePath(path)
		switch {
		case err != nil: // its successor may have come, and have been renamed too
			found = withoutYounger(found, info)
		case now.identity != info.identity && !last:
			closeAll(found)
			file.Close()
			return false
		}
		f.hold(found...)
		if !all { // the rest of them comes first
			file.Close()
			f.crowded(info)
			return true
		}
	}
	f.hold(next)
	next.seen = time.Now()
	f.settleSkipped()
	f.report.Set(thePath, "")
	f.report.Set(theHeld, "")
	return true
}

// crowded notes a file at the path for which there is no room.
func (f *Follower) crowded(info file) {
	if _, ok := f.skipped[info.identity]; ok || len(f.skipped) < maxSkipped {
		f.skipped[info.identity] = info.size
	}
	f.report.Set(theHeld, fmt.Sprintf("%d files wait to be read, and docket holds no more open: files that rotation deletes now are lost. Find out why the queue takes no more records", maxHeld))
}

// settleSkipped counts what was seen while there was no room, and is gone.
func (f *Follower) settleSkipped() {
	for id, size := range f.skipped {
		if !slices.ContainsFunc(f.held, func(g *generation) bool { return g.identity == id }) {
			f.report.Gap(Lost{Bytes: uint64(size)}, "a log file was rotated away before docket read it, because too many files waited for the queue", "inode", id.Inode)
		}
	}
	clear(f.skipped)
}

func (g *generation) look() (file, error) {
	if g.file == nil {
		return file{}, fs.ErrNotExist
	}
	return examine(g.file)
}
