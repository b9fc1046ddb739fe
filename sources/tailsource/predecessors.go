package tailsource

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The methods of this file look for files by what is known of them. They are called
// with follower.mu held.

// beside lists the directory of a path. A file that is renamed meanwhile may be missing
// from one listing; it is not from two.
func (f *follower) beside(path string) []file {
	dir := filepath.Dir(path)
	var files []file
	for range 2 {
		again, err := list(dir)
		if err != nil && !os.IsNotExist(err) {
			f.log.Warn("the directory of the log cannot be listed: rotated files that were never seen at the path are not found", "error", err)
		}
		for _, a := range again {
			if i := slices.IndexFunc(files, func(b file) bool { return a.identity == b.identity }); i >= 0 {
				files[i] = a
			} else {
				files = append(files, a)
			}
		}
	}
	return files
}

// between finds the files that were at path after the latest one was last seen there,
// and have made way for next; and those that were read, and have grown since. all is
// false where there is no room for the latest of them.
func (f *follower) between(path string, next *generation) (found []*generation, all bool) {
	files := slices.DeleteFunc(f.beside(path), func(c file) bool {
		return c.size == 0 || c.identity == next.identity || !isRotated(filepath.Base(path), filepath.Base(c.path)) ||
			slices.ContainsFunc(f.held, func(g *generation) bool { return g.identity == c.identity }) ||
			!f.mayBeNew(c)
	})
	slices.SortFunc(files, func(a, b file) int {
		return cmp.Or(a.modified.Compare(b.modified), compareNames(a.path, b.path))
	})
	for _, c := range files {
		if len(f.held)+len(found) >= maxHeld {
			return found, false
		}
		if g := f.consider(c, path); g != nil {
			found = append(found, g)
		}
	}
	return found, true
}

// mayBeNew reports whether a file may hold what was not read.
func (f *follower) mayBeNew(c file) bool {
	for i := range f.done {
		if d := &f.done[i]; d.identity == c.identity {
			return c.size != d.Offset // longer, or other contents
		}
	}
	return !c.modified.Before(f.lastSeen().Add(-clockSlack))
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

// consider opens a file that may have been at path; nil if it was not.
func (f *follower) consider(c file, path string) *generation {
	file, info, err := open(c.path)
	if err != nil {
		return nil // renamed again, or gone: it is looked for again with the next one
	}
	g := &generation{identity: info.identity, real: path, file: file}
	head, err := part(file, 0, int(min(info.size, headBytes)))
	if err != nil {
		file.Close()
		return nil
	}
	if d := f.wasRead(file, info, head); d != nil {
		if d.identity == info.identity && info.size > d.Offset {
			g.known = d
			return g
		}
		file.Close()
		return nil
	}
	isCopy := slices.ContainsFunc(f.held, func(h *generation) bool { return h.isCopy(head) })
	if isCopy || info.modified.Before(f.lastSeen().Add(-clockSlack)) {
		file.Close()
		return nil
	}
	return g
}

// wasRead finds the contents of a file, or of its copy, among those that were read.
func (f *follower) wasRead(o *os.File, info file, head []byte) *contents {
	sum := windowOf(head)
	for i := range f.done {
		d := &f.done[i]
		// Contents alone tell a copy if there is enough of them.
		copied := d.Head.Length >= headBytes/2 && (d.Head.Length != sum.Length || d.Head == sum)
		if (d.identity == info.identity || copied) && d.matches(o, info.size) {
			return d
		}
	}
	return nil
}

// copyOf finds the copy of contents that were overwritten; nil if there is none.
func (f *follower) copyOf(g *generation) *os.File {
	files := f.beside(g.real)
	slices.SortFunc(files, func(a, b file) int { // the most complete, the latest
		return cmp.Or(cmp.Compare(b.size, a.size), b.modified.Compare(a.modified))
	})
	for _, c := range files {
		if c.size == 0 || c.identity == g.identity {
			continue
		}
		if file, info, err := open(c.path); err == nil {
			head, err := part(file, 0, int(min(info.size, headBytes)))
			if err == nil && info.identity == c.identity && g.isCopy(head) {
				return file
			}
			file.Close()
		}
	}
	return nil
}

// findResumed finds what was being read before the restart: under its name, under
// another, or as a copy. current is what is at the path, if there is something.
func (f *follower) findResumed(p place, current file, there bool) {
	c := f.resume
	if c == nil {
		return
	}
	var files []file
	if there {
		files = append(files, current)
	}
	files = append(files, f.beside(c.Real)...)
	if p.real != "" && filepath.Dir(p.real) != filepath.Dir(c.Real) {
		files = append(files, f.beside(p.real)...)
	}
	for _, same := range []bool{true, false} {
		for _, o := range files {
			// Contents alone tell a copy, unless they are next to nothing.
			if same != (o.identity == c.identity) || !same && c.Head.Length == 0 {
				continue
			}
			file, info, err := open(o.path)
			if err != nil {
				continue
			}
			if info.identity != o.identity || !c.matches(file, info.size) {
				file.Close()
				continue
			}
			g := &generation{identity: info.identity, real: c.Real, known: c, file: file}
			f.hold(g)
			f.resume = nil
			return
		}
	}
	if !there {
		return // the file system may not be mounted yet
	}
	f.resume = nil
	c.Done = true
	f.done = append(f.done, *c)
	f.report.gap("the log file that was being read is gone: what it held beyond the last position is lost, if there was more",
		"path", f.path, "inode", c.Inode, "position", c.Offset)
}
