package follow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/docket-export/docket/internal/outage"
)

const (
	// maxHeld bounds the files that are held open while the queue is full.
	maxHeld = 256
	// maxSkipped bounds how many files beyond those are known, to count them if they go.
	maxSkipped = 1 << 12
	// missingFor is how long a log may have no file before it is reported: it may be being
	// rotated.
	missingFor = 5 * time.Second
)

// Options say what to follow.
type Options struct {
	Path string // absolute
	// Poll is how often the path is looked at.
	Poll time.Duration
	// Grace is how long a file is read on after its successor has contents.
	Grace time.Duration
	// Known is what was read before a restart.
	Known History
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
	poll   time.Duration
	grace  time.Duration
	log    *slog.Logger
	said   outage.Log // of the directory that cannot be listed
	report Report
	claims *Claims
	mayGo  bool
	list   func(dir string) ([]file, error)
	room   chan struct{} // the reader has finished a file

	real   string    // where the path led last; owned by scan
	listed time.Time // when a directory had changed last that was looked at for other logs; owned by scan
	seen   time.Time // when there was a file at the path last; owned by scan

	mu       sync.Mutex
	retired  bool               // nothing comes after what is held
	held     []*generation      // to be read, in order; the last is the latest
	resume   *Contents          // what was being read before the restart, until it is found
	done     []Contents         // what was read
	followed bool               // see History
	beside   []identity         // see History
	skipped  map[identity]int64 // seen at the path while there was no room to hold them, and their sizes then
}

// New looks at the path for the first time. Close the Follower when Run has returned.
func New(o Options) *Follower {
	f := &Follower{
		path: o.Path, poll: o.Poll, grace: o.Grace, log: o.Log, report: o.Report, claims: o.Claims, mayGo: o.MayGo, list: list,
		room: make(chan struct{}, 1), skipped: make(map[identity]int64),
		followed: o.Known.Followed, beside: slices.Clone(o.Known.Beside), done: slices.Clone(o.Known.Files),
	}
	if f.claims == nil {
		f.claims = NewClaims()
	}
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

// Run looks again and again, until ctx is done.
func (f *Follower) Run(ctx context.Context) {
	tick := time.NewTicker(f.poll)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-f.room:
		case <-ctx.Done():
			return
		}
		f.scan()
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
	f.mu.Lock()
	defer f.mu.Unlock()
	current, err := f.find()
	f.findResumed(current, err == nil)
	switch latest := f.latest(); {
	case err != nil:
		if !f.followed { // from now on, what comes and goes is not to be missed
			f.noteBeside(f.path)
		}
		f.cannot(err)
	case latest != nil && latest.identity == current.identity:
		f.seen = time.Now()
		f.report.Set(thePath, "")
		f.lookAt(latest)
		f.noteBeside(current.path)
	default:
		f.seen = time.Now()
		if f.begin(current.path); !f.followed {
			f.noteBeside(current.path)
		}
	}
	f.noteReplaced()
}

// find is the file to which the path leads. A link to the log of a container goes before the
// log does, which may rotate once more in between.
func (f *Follower) find() (file, error) {
	current, err := lead(f.path)
	if f.mayGo && errors.Is(err, fs.ErrNotExist) && f.real != "" {
		if last, err := lead(f.real); err == nil {
			return last, nil
		}
	}
	if err == nil {
		f.real = current.path
	}
	return current, err
}

// lead follows the symbolic links of an absolute path.
func lead(path string) (file, error) {
	if _, err := os.Stat(path); err != nil {
		return file{}, err // the system's reason is better than that of package filepath
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return file{}, err
	}
	current, err := examinePath(real)
	if err == nil && !current.regular {
		err = &fs.PathError{Op: "read", Path: real, Err: errors.New("not a regular file")}
	}
	return current, err
}

// cannot reports that nothing can be read at the path.
func (f *Follower) cannot(err error) {
	switch {
	case errors.Is(err, fs.ErrNotExist) && (f.mayGo || f.latest() != nil && time.Since(f.seen) < missingFor):
		// It is being rotated, or went for good.
	case errors.Is(err, fs.ErrNotExist):
		f.report.Set(thePath, fmt.Sprintf("%s does not exist: docket reads it as soon as it exists (%v)", f.path, err))
	case errors.Is(err, fs.ErrPermission):
		f.report.Set(thePath, fmt.Sprintf("cannot read %s: let docket's user read the file and enter its directories (%v)", f.path, err))
	default:
		f.report.Set(thePath, fmt.Sprintf("cannot read %s: %v", f.path, err))
	}
}

// The methods below are called with f.mu held.

// latest is the generation that was last found at the path; nil: there is none.
func (f *Follower) latest() *generation {
	if len(f.held) == 0 {
		return nil
	}
	return f.held[len(f.held)-1]
}

// hold adds what is to be read after all that is held.
func (f *Follower) hold(gs ...*generation) {
	for _, g := range gs {
		g.look()
		f.held = append(f.held, g)
		f.claims.hold(f, g.identity)
	}
}

// begin begins to follow the file at the path, and before it those to which the log was
// rotated since.
func (f *Follower) begin(path string) {
	for looks := 1; ; looks++ {
		o, info, err := open(path)
		if err != nil {
			f.cannot(err)
			return
		}
		taken := f.retired || f.isHeld(info.identity) || !f.claims.mine(f, o, info)
		// Once there are too many, room is made for several: each time costs a listing.
		full := len(f.held) >= maxHeld || len(f.skipped) > 0 && len(f.held) > maxHeld/2
		if taken || full {
			o.Close()
			if !taken {
				f.crowded(info)
			}
			return
		}
		next := &generation{identity: info.identity, real: path, file: o}
		for _, c := range f.done {
			if c.identity == info.identity && c.matches(o, info.size) {
				next.known = &c // it was renamed, and has its name again
			}
		}
		var found []*generation
		all := true
		if f.followed {
			found, all = f.predecessors(path, info.identity)
		}
		// The log may have been rotated meanwhile: what came after the file may be among those
		// that were found before it.
		if now, err := examinePath(path); (err != nil || now.identity != info.identity) && looks < maxLooks {
			closeAll(found)
			o.Close()
			continue
		}
		f.hold(found...)
		if !all { // the rest of them comes first
			o.Close()
			f.crowded(info)
			return
		}
		f.hold(next)
		f.settleSkipped()
		f.report.Set(thePath, "")
		f.report.Set(theHeld, "")
		return
	}
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
		if !f.isHeld(id) {
			f.report.Gap(Lost{Bytes: uint64(size)}, "a log file was rotated away before docket read it, because too many files waited for the queue", "inode", id.Inode)
		}
	}
	clear(f.skipped)
}

// findResumed finds what was being read before the restart: under any name beside the path, or
// with its contents at the path. current is what is at the path, if there is something.
func (f *Follower) findResumed(current file, there bool) {
	c := f.resume
	if c == nil {
		return
	}
	files, _ := f.listBeside(c.Real)
	if there && filepath.Dir(current.path) != filepath.Dir(c.Real) {
		others, _ := f.listBeside(current.path)
		files = append(files, others...)
	}
	files = slices.DeleteFunc(files, func(o file) bool { return o.identity != c.identity })
	if there {
		files = append(files, current) // on another volume the same file has another inode
	}
	for _, o := range files {
		if opened := openListed(o); opened != nil {
			if c.matches(opened, o.size) {
				f.hold(&generation{identity: o.identity, real: c.Real, known: c, file: opened})
				f.resume = nil
				return
			}
			opened.Close()
		}
	}
	if !there {
		return // the file system may not be mounted yet
	}
	f.resume = nil
	c.Done = true
	f.done = append(f.done, *c)
	f.report.Gap(Lost{}, "the log file that docket was reading is gone: any lines after the last position are lost. Rotate by renaming, and let rotated files stay uncompressed for longer (delaycompress)",
		"path", f.path, "inode", c.Inode, "position", c.Offset)
	if o := openListed(current); o != nil && current.identity == c.identity { // it was overwritten, and copies of it lie beside it
		f.hold(&generation{identity: current.identity, real: current.path, file: o})
	} else if o != nil {
		o.Close()
	}
}

// lookAt sees whether the latest file has other contents now, and how long they are.
func (f *Follower) lookAt(g *generation) {
	info, err := examine(g.file)
	if err != nil {
		f.cannot(err)
		return
	}
	same, err := holds(g.file, g.peek, 0)
	if err != nil {
		f.cannot(err)
		return
	}
	if info.size < g.size || !same {
		f.overwritten(g)
		return
	}
	g.look()
}

// look notes how long the contents are and how they begin, to know them again.
func (g *generation) look() {
	if g.file == nil {
		return
	}
	info, err := examine(g.file)
	if err != nil {
		return // the reader will say so
	}
	g.size = max(g.size, info.size)
	if n := int(min(info.size, headBytes)); n > len(g.peek) {
		if peek, err := part(g.file, 0, n); err == nil && bytes.HasPrefix(peek, g.peek) {
			g.peek = peek
		}
	}
}

// overwritten says that the file of g has other contents now: it was truncated. What was not
// read of the old ones is lost.
func (f *Follower) overwritten(g *generation) {
	o := g.file
	g.file = nil
	g.replaced = time.Now().Add(-f.grace)
	if g == f.latest() {
		f.hold(&generation{identity: g.identity, real: g.real, file: o})
	} else {
		o.Close()
	}
}

// noteReplaced notes from which files the writer has moved on.
func (f *Follower) noteReplaced() {
	for i, g := range f.held[:max(0, len(f.held)-1)] {
		next := f.held[i+1]
		if next.look(); g.replaced.IsZero() && (next.size > 0 || i+2 < len(f.held)) {
			g.replaced = time.Now()
		}
	}
}
