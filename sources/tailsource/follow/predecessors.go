package follow

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The methods of this file look for files by what is known of them. They are called
// with Follower.mu held.

// maxListings bounds how often a directory is listed in which files are being renamed.
const maxListings = 5

// maxLooks bounds how often files are looked for that are renamed before they are opened.
const maxLooks = 20

// listBeside lists the directory of a path. A file that is renamed meanwhile may be missing
// from a listing: two that are alike miss none, and without them calm is false.
func (f *Follower) listBeside(path string) (files []file, calm bool) {
	var before []file
	place := make(map[identity]int) // in files
	for n := range maxListings {
		again, err := f.list(filepath.Dir(path))
		if err == nil {
			f.said.Works()
		} else if !os.IsNotExist(err) && f.said.Fails(err.Error()) {
			f.log.Warn("cannot list the directory of the log: docket does not find rotated files that it has never seen at the path", "error", err)
		}
		for _, a := range again {
			if i, known := place[a.identity]; known {
				files[i] = a
				continue
			}
			place[a.identity] = len(files)
			files = append(files, a)
		}
		if n > 0 && slices.EqualFunc(before, again, func(a, b file) bool { return a.path == b.path && a.identity == b.identity }) {
			return files, true
		}
		before = again
	}
	return files, false
}

// between finds the files that were at path after the latest one was last seen there,
// and have made way for next; and those that were read, and have grown since. all is
// false where there is no room for the latest of them.
func (f *Follower) between(path string, next *generation) (found []*generation, all bool) {
	for looks := 1; ; looks++ {
		var moved bool
		if found, all, moved = f.listBetween(path, next); !moved || looks == maxLooks {
			return found, all // what is missing is looked for again with the next one
		}
		closeAll(found)
	}
}

func closeAll(gs []*generation) {
	for _, g := range gs {
		g.file.Close()
	}
}

// listBetween is between by one listing. moved says that a file was renamed since: what
// was found may lack it, and not be in order.
func (f *Follower) listBetween(path string, next *generation) (found []*generation, all, moved bool) {
	files, calm := f.listBeside(path)
	moved = !calm
	files = slices.DeleteFunc(files, func(c file) bool {
		return c.size == 0 || c.identity == next.identity || f.beside[c.identity] || !isRotated(filepath.Base(path), filepath.Base(c.path)) ||
			slices.ContainsFunc(f.held, func(g *generation) bool { return g.isFile(c.identity) }) ||
			!f.mayBeNew(c)
	})
	slices.SortStableFunc(files, byAge)
	for _, c := range files {
		if len(f.held)+len(found) >= maxHeld {
			return found, false, moved
		}
		g, there := f.consider(c, path)
		if g != nil {
			found = append(found, g)
		}
		moved = moved || !there
	}
	return found, true, moved
}

// maxBeside bounds the files that are remembered as other logs.
const maxBeside = 1 << 10

// noteBeside takes note of files that have names of rotation while the latest file has the
// log's: they were never at the path, and are not taken for predecessors when it rotates. path is
// that of the latest file.
func (f *Follower) noteBeside(path string) {
	dir, err := os.Stat(filepath.Dir(path))
	if err != nil || dir.ModTime().Equal(f.listed) || len(f.skipped) > 0 {
		return
	}
	files, calm := f.listBeside(path)
	if now, err := examinePath(path); !calm || err != nil || now.identity != f.latest().identity {
		return // it rotates
	}
	f.listed = dir.ModTime()
	clear(f.beside)
	for _, c := range files {
		isOurs := slices.ContainsFunc(f.held, func(g *generation) bool { return g.identity == c.identity || g.copied == c.identity }) ||
			slices.ContainsFunc(f.done, func(d Contents) bool { return d.identity == c.identity || d.Copied == c.identity })
		if !isOurs && len(f.beside) < maxBeside && isRotated(filepath.Base(path), filepath.Base(c.path)) {
			f.beside[c.identity] = true
		}
	}
}

// withoutYounger closes the files that were begun after one that is not at the path any
// more, and leaves the others. They are found again with the next.
func withoutYounger(found []*generation, than file) []*generation {
	return slices.DeleteFunc(found, func(g *generation) bool {
		info, err := g.look()
		younger := err == nil && cmp.Or(cmp.Compare(info.Born, than.Born), info.modified.Compare(than.modified)) > 0
		if younger {
			g.file.Close()
		}
		return younger
	})
}

// mayBeNew reports whether a file may hold what was not read.
func (f *Follower) mayBeNew(c file) bool {
	for _, d := range slices.Backward(f.done) {
		if d.identity == c.identity || d.Copied == c.identity {
			return c.size != d.Offset // longer, or other contents
		}
	}
	return !c.modified.Before(f.lastSeen().Add(-clockSlack))
}

// byAge puts the file first that was written to the last time before the other.
func byAge(a, b file) int {
	return cmp.Or(a.modified.Compare(b.modified), compareNames(a.path, b.path))
}

// compareNames puts the older of two rotated files first, where their times are equal:
// numbers count up as files grow old (.2 before .1), dates go on (.20260105 before
// .20260106).
func compareNames(a, b string) int {
	const longest = 6 // digits; a date has more
	numberA, numberB := filepath.Ext(a), filepath.Ext(b)
	isNumber := func(s string) bool {
		return len(s) > 1 && len(s) <= 1+longest && strings.Trim(s[1:], "0123456789") == ""
	}
	if isNumber(numberA) && isNumber(numberB) {
		return cmp.Or(cmp.Compare(len(numberB), len(numberA)), cmp.Compare(numberB, numberA))
	}
	return cmp.Compare(a, b)
}

// consider opens a file that may have been at path; nil if it was not. there is false
// where it was renamed since it was listed, or is gone.
func (f *Follower) consider(c file, path string) (g *generation, there bool) {
	file, info, err := open(c.path)
	if err != nil {
		return nil, false
	}
	if info.identity != c.identity {
		file.Close()
		return nil, false
	}
	if !f.claims.mine(f, file, info) {
		file.Close()
		return nil, true
	}
	g = &generation{identity: info.identity, real: path, file: file}
	if d := f.wasRead(file, info); d != nil {
		if d.identity == info.identity && info.size > d.Offset {
			g.known = d
			return g, true
		}
		file.Close()
		return nil, true
	}
	if info.modified.Before(f.lastSeen().Add(-clockSlack)) {
		file.Close()
		return nil, true
	}
	return g, true
}

// wasRead finds the contents of a file among those that were read.
func (f *Follower) wasRead(o *os.File, info file) *Contents {
	for _, d := range slices.Backward(f.done) {
		if d.identity == info.identity && d.matches(o, info.size) {
			return &d
		}
		// A copy may lack the end of what was read.
		if d.Copied == info.identity && (info.size < int64(d.Head.Length) || d.Head.isIn(o, 0)) {
			return &d
		}
	}
	return nil
}

// copyOf finds the copy of contents that were overwritten; nil if there is none. Where
// several files have them it is the last one. A copy that lacks the end of what was
// read will do where there is no other: it is known for a copy then.
func (f *Follower) copyOf(g *generation) (*os.File, identity) {
	files, _ := f.listBeside(g.real)
	slices.SortStableFunc(files, byAge)
	for _, whole := range []bool{true, false} {
		for _, c := range slices.Backward(files) {
			if c.size == 0 || c.identity == g.identity || !whole && (c.size >= g.taken.pos || !f.mayBeNew(c)) {
				continue
			}
			o := openListed(c)
			if o == nil {
				continue
			}
			if whole && g.isIn(o, c.size) || !whole && begins(o, g.peek) {
				return o, c.identity
			}
			o.Close()
		}
	}
	return nil, identity{}
}

// findResumed finds what was being read before the restart: under its name, under
// another, or as a copy. current is what is at the path, if there is something.
func (f *Follower) findResumed(p place, current file, there bool) {
	c := f.resume
	if c == nil {
		return
	}
	files, _ := f.listBeside(c.Real)
	if p.real != "" && filepath.Dir(p.real) != filepath.Dir(c.Real) {
		others, _ := f.listBeside(p.real)
		files = append(files, others...)
	}
	if there {
		files = append(files, current)
	}
	if g := f.resumed(files, current.identity); g != nil {
		f.hold(g)
		f.resume = nil
		return
	}
	if !there {
		return // the file system may not be mounted yet
	}
	f.resume = nil
	c.Done = true
	f.done = append(f.done, *c)
	f.report.Gap(Lost{}, "the log file that docket was reading is gone: any lines after the last position are lost. Let rotated files stay uncompressed for longer (delaycompress)",
		"path", f.path, "inode", c.Inode, "position", c.Offset)
}

// resumed finds among files the one that holds what was being read, and its rest: the
// file itself, or else a copy, which may be at the path by now. Where little was read the
// file may have been copied, truncated and begun in the same way again: a file that was
// written to before it, and is longer or goes on otherwise, is the copy then.
func (f *Follower) resumed(files []file, current identity) *generation {
	c := f.resume
	slices.SortStableFunc(files, byAge)
	var own *generation
	var size int64 // of own
	if i := slices.IndexFunc(files, func(o file) bool { return o.identity == c.identity }); i >= 0 {
		own, size = c.openIn(files[i]), files[i].size
	}
	for _, o := range files {
		switch {
		case o.identity == c.identity:
			if own != nil {
				return own
			}
			continue
		case own != nil && o.identity == current:
			continue // own has made way for it: it is newer, whatever their times say
		case c.Head.Length == 0, o.identity != current && !f.mayBeNew(o):
			continue
		}
		if g := c.openIn(o); g != nil {
			if own == nil {
				return g
			}
			if o.size > size || !beginAlike(own.file, g.file) {
				own.file.Close()
				return g
			}
			g.file.Close()
		}
	}
	return nil
}

// openIn opens a file to read on in it; nil if it has not what was read.
func (c *Contents) openIn(o file) *generation {
	file := openListed(o)
	if file == nil {
		return nil
	}
	if !c.matches(file, o.size) {
		file.Close()
		return nil
	}
	return &generation{identity: o.identity, real: c.Real, known: c, file: file}
}

// Open opens the file that holds contents, or a copy of it, whatever it is called now. It
// may be renamed between two looks.
func (c *Contents) Open() (*os.File, error) {
	var err error
	for range maxLooks {
		var files []file
		files, err = list(filepath.Dir(c.Real))
		for _, f := range files {
			if f.identity != c.identity && f.identity != c.Copied {
				continue
			}
			if g := c.openIn(f); g != nil {
				return g.file, nil
			}
		}
	}
	return nil, errors.Join(os.ErrNotExist, err)
}
