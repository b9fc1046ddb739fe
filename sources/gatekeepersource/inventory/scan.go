package inventory

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxDepth is how many directories a channel may lie below the path: its name may
	// have slashes.
	maxDepth = 4
	// maxNamed is how many names a text for people lists.
	maxNamed = 3
	// maxChannels bounds the channels that are remembered after their directories are gone.
	maxChannels = 256
)

// look is one pass over the directories.
type look struct {
	*Inventory
	present  map[string]bool   // ids of the files that are there
	stems    map[string]bool   // stemKeys of the same
	channels map[string]bool   // directories that are there
	unknown  map[string]bool   // channels that could not be read in full, with all below them
	odd      map[string]string // what is not Gatekeeper's, in words, by place
	trouble  map[string]string // by directory or file
	full     bool              // no more files can be claimed
	shelved  []*claim          // whose names on the shelf are not durable yet
}

// found is a file of Gatekeeper in a channel's directory.
type found struct {
	channel string
	file    string
	name    fileName
	info    fileInfo
	id      string
}

// scan looks at all directories once.
func (v *Inventory) scan() {
	l := &look{Inventory: v, present: make(map[string]bool), stems: make(map[string]bool), channels: make(map[string]bool),
		unknown: make(map[string]bool), odd: make(map[string]string), trouble: make(map[string]string)}
	top, err := openTop(v.Path)
	switch {
	case err == nil:
		defer top.close()
		l.channel(top, ".", 0)
	case missing(err):
		l.trouble["."] = fmt.Sprintf("%s does not exist: Gatekeeper creates it when a Connection has this path", v.Path)
	default:
		l.fail(".", err)
	}
	l.syncShelf()
	l.forget()
	l.report()
	select {
	case v.wake <- struct{}{}:
	default:
	}
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
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err // its name is said better here
	}
	return fmt.Sprintf("cannot %s %s: %v%s", do, filepath.Join(l.Path, channel), err, advice)
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
	l.channels[channel] = true
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
			if l.Inventory.odd[place] == "" && name.kind != foreign { // what was odd and goes was no run that nobody has read
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
		below := path.Join(channel, name)
		sub, err := d.openat(name, unix.O_DIRECTORY)
		switch {
		case err == nil:
			l.channel(dir{f: sub}, below, depth+1)
			sub.Close()
		case missing(err) || errors.Is(err, unix.ELOOP): // it was removed, or replaced: the next look tells
			l.unknown[below] = true
		default:
			l.fail(below, err)
		}
	}
}

// missed notes a file that was listed and is not there any more.
func (l *look) missed(channel, file string, name fileName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.wasRead(channel, name.stem) {
		l.remember(channel, file, name.stem, 0)
	}
}

// claimAll claims the finished files of a channel, and notes those that are being written.
func (l *look) claimAll(d dir, channel string, files []found) {
	newest := l.newest(channel, files)
	for _, f := range files {
		l.present[f.id] = true
		l.stems[stemKey(channel, f.name.stem)] = true
		abandoned := f.name.kind == liveRun && f.name.at.Before(newest) && time.Since(f.info.modified) >= l.RestFor
		if l.isDone(d, f) {
			continue
		}
		l.mu.Lock()
		_, isClaimed := l.claims[f.id]
		if !isClaimed {
			l.remember(channel, f.file, f.name.stem, f.info.size)
		}
		l.mu.Unlock()
		if isClaimed || f.name.kind.isLive() && !abandoned {
			continue
		}
		if err := l.claim(d, f); err != nil && !missing(err) {
			l.trouble[channel+"/*"] = l.cannot("claim files in", channel, err)
		}
	}
}

// newest is when the newest run of a channel began that was ever seen.
func (l *look) newest(channel string, files []found) time.Time {
	newest := l.Channel(channel).Newest
	changed := false
	for _, f := range files {
		if f.name.kind.isRun() && f.name.at.After(newest) {
			newest, changed = f.name.at, true
		}
	}
	if changed {
		l.SetChannel(channel, func(st *Channel) { st.Newest = newest })
	}
	return newest
}

// isDone reports whether a file was read, and deletes it where that is configured. Gatekeeper is
// about to delete a doomed one itself.
func (l *look) isDone(d dir, f found) bool {
	l.mu.Lock()
	was, ok := l.state.Done[f.id]
	isClaimed := l.claims[f.id] != nil
	l.mu.Unlock()
	if !ok || was.Size != f.info.size {
		return false
	}
	if l.DeleteAfterRead && f.name.kind != doomedSegment && !isClaimed {
		if err := removeUnchanged(d, f); err != nil && !missing(err) {
			l.trouble[f.channel+"/-"] = l.cannot("delete read files in", f.channel, err)
		}
	}
	return true
}

// errCrowded says that no more files are claimed for now.
var errCrowded = errors.New("too many files wait to be read, and Gatekeeper will delete the others")

// claim takes a file, so that nobody can take it away.
func (l *look) claim(d dir, f found) error {
	l.mu.Lock()
	l.full = l.full || !l.room()
	l.mu.Unlock()
	if l.full {
		return errCrowded
	}
	file, info, err := d.open(f.file)
	if err != nil {
		return err
	}
	if info.inode != f.info.inode {
		file.Close()
		return fs.ErrNotExist // the name is another file's by now
	}
	c := newClaim(f.channel, f.file, info.inode)
	c.Size = info.size
	if l.HoldOpen {
		c.f = file
	} else {
		err := l.shelve(d, c, file)
		file.Close()
		if errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if l.cannotShelve(err); err != nil {
			return nil // it is tried again
		}
	}
	l.mu.Lock()
	l.claims[c.ID] = c
	l.mu.Unlock()
	if c.f == nil {
		l.shelved = append(l.shelved, c)
	}
	return nil
}

// syncShelf makes the claims of the look durable. Until then the state has their files as seen.
func (l *look) syncShelf() {
	if len(l.shelved) == 0 || l.shelf().SyncDir() != nil {
		return // they stay seen until they are read
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.shelved {
		l.forgetSeen(c.Channel, c.Stem)
	}
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

// forget decides about files that had a name and have none any more. A file that is renamed
// while a directory is listed may be missing from one listing, and not from two.
func (l *look) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := make(map[string]bool) // stemKeys of claims
	for _, c := range l.claims {
		held[stemKey(c.Channel, c.Stem)] = true
	}
	gone := make(map[string]bool)
	for key, seen := range l.state.Seen {
		switch {
		case held[key] || l.stems[key] || !l.known(seen.Channel):
		case !l.missing[key]:
			gone[key] = true
		case seen.Size == 0 && parseName(seen.File).kind == liveSegment: // Gatekeeper has removed an empty one
			l.forgetSeen(seen.Channel, parseName(seen.File).stem)
		default:
			l.vanished(key, seen)
		}
	}
	l.missing = gone
	maps.DeleteFunc(l.Gaps.pending, func(key string, _ bool) bool { _, seen := l.state.Seen[key]; return !seen })
	for id, was := range l.state.Done {
		if !l.present[id] && l.claims[id] == nil && l.known(was.Channel) {
			delete(l.state.Done, id)
			l.dirty = true
		}
	}
	for name := range l.state.Channels {
		if len(l.state.Channels) > maxChannels && !l.channels[name] && l.known(name) {
			delete(l.state.Channels, name)
			l.dirty = true
		}
	}
}

// report says what is wrong.
func (l *look) report() {
	for place := range l.odd {
		if l.Inventory.odd[place] == "" {
			l.Gaps.foreign.Add(1)
		}
	}
	l.Inventory.odd = l.odd
	if len(l.odd) > 0 {
		names := slices.Sorted(maps.Values(l.odd))
		text := strings.Join(names[:min(len(names), maxNamed)], ", ")
		if more := len(names) - maxNamed; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		l.trouble["/odd"] = text + ": ignored, not written by Gatekeeper. Remove such files: Gatekeeper up to 3.23 counts every file as an audit result and deletes it"
	}
	l.Failures.SetAll("scan/", l.trouble)
}
