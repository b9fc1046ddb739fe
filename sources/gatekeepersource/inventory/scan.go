package inventory

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/sources/watch"
)

const (
	// maxDepth is how many directories a channel may lie below the path: its name may
	// have slashes.
	maxDepth = 4
	// pollInterval is how often the directories are looked at where nothing reports
	// their changes. A finished file stays for minutes unless maxAuditResults is 0.
	pollInterval = 5 * time.Second
	// saveInterval bounds how often the state is written for files that were only seen.
	saveInterval = time.Second
	// maxNamed is how many names a text for people lists.
	maxNamed = 3
)

// scanner looks at the directories of Gatekeeper and claims what is in them.
type scanner struct {
	v       *Inventory
	watcher *watch.Watcher
	watched map[string]bool   // directories of the last look
	odd     map[string]string // what was not Gatekeeper's at the last look, by place
}

// look is one pass over the directories.
type look struct {
	*scanner
	present map[string]bool   // ids of the files that are there
	stems   map[string]bool   // stemKeys of the same
	unknown map[string]bool   // channels that could not be read in full, with all below them
	odd     map[string]string // what is not Gatekeeper's, in words, by place
	trouble map[string]string // by directory or file
	again   bool              // a name has changed meanwhile
	gone    bool              // there is no directory at the path
	full    bool              // no more files can be claimed
	watched map[string]bool   // directories
}

// found is a file of Gatekeeper in a channel's directory.
type found struct {
	channel string
	file    string
	name    fileName
	info    fileInfo
	id      string
}

// scan looks until nothing changes while it looks, or a few times.
func (s *scanner) scan() {
	s.v.openShelf()
	for range 3 {
		if !s.once() {
			break
		}
	}
	poke(s.v.wake)
}

func (s *scanner) once() (again bool) {
	l := &look{scanner: s, present: make(map[string]bool), stems: make(map[string]bool),
		odd: make(map[string]string), unknown: make(map[string]bool), trouble: make(map[string]string), watched: make(map[string]bool)}
	top, err := openTop(s.v.Path)
	switch {
	case err == nil:
		defer top.close()
		l.channel(top, ".", 0)
	case missing(err):
		l.gone = true
		l.trouble["."] = fmt.Sprintf("%s does not exist: Gatekeeper creates it when a Connection has this path", s.v.Path)
		l.watchAncestor()
	default:
		l.fail(".", err)
	}
	l.goneFiles(top)
	l.report()
	l.unwatch()
	for place := range l.odd {
		if s.odd[place] == "" {
			s.v.Gaps.foreign.Add(1)
		}
	}
	s.odd = l.odd
	s.v.prune(l)
	return l.again
}

// fail notes a directory that cannot be read, or not in full.
func (l *look) fail(channel string, err error) {
	l.unknown[channel] = true
	l.trouble[channel] = l.cannot("read", channel, err)
}

// cannot says what could not be done, and what to do about it. It names no file of many,
// so that it stays the same while they come and go.
func (l *look) cannot(do, channel string, err error) string {
	advice := ""
	if errors.Is(err, fs.ErrPermission) {
		advice = ": run docket as the user and group of Gatekeeper's containers (uid 1000, gid 999)"
	}
	return fmt.Sprintf("cannot %s %s: %v%s", do, filepath.Join(l.v.Path, channel), reason(err), advice)
}

// reason is an error without the names that the caller says better.
func reason(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

// known reports whether all of a channel's directory was seen.
func (l *look) known(channel string) bool {
	for ; channel != "."; channel = path.Dir(channel) {
		if l.unknown[channel] {
			return false
		}
	}
	return !l.unknown["."]
}

// channel looks at one directory and those in it.
func (l *look) channel(d dir, channel string, depth int) {
	l.watch(filepath.Join(l.v.Path, channel)) // before its names are read: what comes later is reported
	names, err := d.names()
	if err != nil {
		l.fail(channel, err) // what was listed is taken all the same
	}
	var files []found
	var dirs []string
	for _, file := range names {
		info, err := d.stat(file)
		place := path.Join(channel, file)
		switch name := parseName(file); {
		case missing(err):
			l.again = l.again || name.kind != foreign
			if l.scanner.odd[place] == "" { // what was odd and goes was no run that nobody has read
				l.missed(channel, file, name)
			}
		case err != nil:
			l.unknown[channel] = true
			l.trouble[channel+"/?"] = l.cannot("inspect files in", channel, err)
		case info.dir && depth < maxDepth:
			dirs = append(dirs, file)
		case info.link:
			l.odd[place] = place + " (a symbolic link, not followed)"
		case !info.regular || name.kind == foreign:
			l.odd[place] = place
		default:
			files = append(files, found{channel, file, name, info, fileID(channel, name.stem, info.inode)})
		}
	}
	slices.SortFunc(files, func(a, b found) int { return a.name.at.Compare(b.name.at) }) // the oldest goes first
	l.claimAll(d, channel, files)
	slices.Sort(dirs)
	for _, name := range dirs {
		l.below(d, path.Join(channel, name), name, depth+1)
	}
}

func (l *look) below(d dir, channel, name string, depth int) {
	sub, err := d.openat(name, unix.O_DIRECTORY)
	switch {
	case err == nil:
		defer sub.Close()
		l.channel(dir{f: sub}, channel, depth)
	case missing(err) || errors.Is(err, unix.ELOOP): // it was removed, or replaced
		l.again = true
	default:
		l.fail(channel, err)
	}
}

// missed notes a file that was listed and is not there any more.
func (l *look) missed(channel, file string, name fileName) {
	if name.kind == foreign {
		return
	}
	l.v.mu.Lock()
	defer l.v.mu.Unlock()
	if !l.v.wasRead(channel, name.stem) {
		l.v.remember(channel, file, name.stem, 0)
	}
}

// claimAll claims the files of a channel.
func (l *look) claimAll(d dir, channel string, files []found) {
	newest := l.newest(channel, files)
	for _, f := range files {
		l.present[f.id] = true
		l.stems[stemKey(channel, f.name.stem)] = true
		old := f.name.kind == liveRun && f.name.at.Before(newest)
		if err := l.claim(d, f, old); err != nil {
			l.failFile(f, old, err)
		}
	}
}

// failFile notes a file that cannot be claimed. One that is being written may get its
// rights when it is finished.
func (l *look) failFile(f found, old bool, err error) {
	switch {
	case missing(err):
		l.again = true
	case !f.name.kind.isLive() || old || !errors.Is(err, fs.ErrPermission):
		l.trouble[f.channel+"/*"] = l.cannot("claim files in", f.channel, err)
	}
	l.v.mu.Lock()
	defer l.v.mu.Unlock()
	l.v.remember(f.channel, f.file, f.name.stem, f.info.size)
}

// newest is when the newest run of a channel began that was ever seen.
func (l *look) newest(channel string, files []found) time.Time {
	newest := l.v.Channel(channel).Newest
	changed := false
	for _, f := range files {
		if f.name.kind.isRun() && f.name.at.After(newest) {
			newest, changed = f.name.at, true
		}
	}
	if changed {
		l.v.SetChannel(channel, func(st *Channel) { st.Newest = newest })
	}
	return newest
}

// errCrowded says that no more files are claimed for now.
var errCrowded = errors.New("too many files wait to be read, and Gatekeeper will delete the others")

// claim takes a file, unless it was read. old says that it is a run which is not
// finished although a newer one exists.
func (l *look) claim(d dir, f found, old bool) error {
	v := l.v
	v.mu.Lock()
	defer v.mu.Unlock()
	if was, ok := v.state.Done[f.id]; ok && was.Size == f.info.size {
		if err := l.remove(d, f); err != nil {
			l.trouble[f.channel+"/-"] = l.cannot("delete read files in", f.channel, err)
		}
		return nil
	}
	c := v.claims[f.id]
	switch {
	case c != nil && c.stage != live:
		return nil
	case c == nil && (l.full || !v.room()):
		l.full = true // of many files only the first costs a count
		return errCrowded
	case c == nil:
		file, info, err := d.open(f.file)
		if err != nil {
			return err
		}
		if info.inode != f.info.inode {
			file.Close()
			return fs.ErrNotExist // the name is another file's by now
		}
		c = newClaim(f.channel, f.file, info.inode)
		c.stage, c.f = live, file
		v.claims[f.id] = c
	}
	v.remember(f.channel, f.file, f.name.stem, f.info.size)
	c.rename(f.file, f.name)
	if f.name.kind.isLive() {
		if !old {
			return nil
		}
		free, err := unlocked(c.f)
		if !free || err != nil {
			return err
		}
		c.IsAbandoned = true
	}
	info, err := statFile(c.f)
	if err != nil {
		return err
	}
	c.Size, c.stage = info.size, ready
	v.shelve(d, c)
	return nil
}

// remove deletes a file that was read, where it is configured. Gatekeeper is about to
// delete a doomed one itself. Called with mu held.
func (l *look) remove(d dir, f found) error {
	if !l.v.DeleteAfterRead || f.name.kind == doomedSegment || l.v.claims[f.id] != nil {
		return nil
	}
	if err := removeUnchanged(d, f); !missing(err) {
		return err
	}
	return nil
}

// removeUnchanged deletes a file if it still is what was found. It holds the file's lock:
// readers of segments are asked to, and a run that was taken for abandoned may be written
// after all. While somebody else holds that, the file is left for the next look.
func removeUnchanged(d dir, f found) error {
	file, _, err := d.open(f.file)
	if err != nil {
		return err
	}
	defer file.Close() // and with it the lock
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil
	}
	if err != nil {
		return &fs.PathError{Op: "lock", Path: f.file, Err: err}
	}
	info, err := statFile(file)
	if err != nil || info.inode != f.info.inode || info.size != f.info.size {
		return err
	}
	return d.unlink(f.file)
}

// watch asks for word of changes in a directory. Where there is none of them, C fires
// with the next poll.
func (l *look) watch(place string) {
	if l.watcher.Add(place) == nil {
		l.watched[place] = true
	}
}

// watchAncestor watches the nearest directory above the path that there is, to hear of
// the path being made.
func (l *look) watchAncestor() {
	place := l.v.Path
	for place != filepath.Dir(place) {
		place = filepath.Dir(place)
		if l.watch(place); l.watched[place] {
			return
		}
	}
}

// unwatch ends the watches that the last look needed, and this one does not.
func (l *look) unwatch() {
	for place := range l.scanner.watched {
		if !l.watched[place] {
			l.watcher.Remove(place)
		}
	}
	l.scanner.watched = l.watched
}
