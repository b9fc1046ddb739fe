package follow

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The methods of this file look at the directory of the log. They are called with
// Follower.mu held.

const (
	// maxListings bounds how often a directory is listed in which files are being renamed.
	maxListings = 5
	// maxLooks bounds how often files are looked for that are renamed before they are opened.
	maxLooks = 20
	// maxBeside bounds the files that are remembered as other logs.
	maxBeside = 1 << 12
	// maxDone bounds the files that are remembered as read.
	maxDone = 1 << 12
	// keptDone are remembered with their contents, to know when they grow. The others are
	// remembered by their identity.
	keptDone = 16
)

// judge is the one table of rules for a file beside the log, when the log's name leads to
// another file than before. The first rule that fits holds:
//
//	its name is none that rotation gives, or it is empty    not read
//	it is held already, or at the log's name                not read
//	it was there while the log had its name                 not read: it is another log
//	it was read, and is as long as it was then              not read
//	it was read, and its contents go on                     its rest is read
//	any other                                               read: the log was rotated to it
//
// o is the open file where it is to be read, and nil if its name is another's by now. known is
// what an earlier reading knows of its contents.
func (f *Follower) judge(c file, log string, current identity) (o *os.File, known *Contents, isOurs bool) {
	i := slices.IndexFunc(f.done, func(d Contents) bool { return d.identity == c.identity })
	switch {
	case c.size == 0, !isRotated(filepath.Base(log), filepath.Base(c.path)),
		c.identity == current, f.isHeld(c.identity),
		slices.Contains(f.beside, c.identity),
		i >= 0 && c.size == f.done[i].Offset:
		return nil, nil, false
	}
	if o = openListed(c); o != nil && i >= 0 && f.done[i].matches(o, c.size) {
		d := f.done[i]
		known = &d
	}
	return o, known, true
}

func (f *Follower) isHeld(id identity) bool {
	return slices.ContainsFunc(f.held, func(g *generation) bool { return g.identity == id })
}

// predecessors finds the files to which the log was rotated since its name was last looked
// at, the oldest first. all is false where there is no room for the latest of them.
func (f *Follower) predecessors(log string, current identity) (found []*generation, all bool) {
	for looks := 1; ; looks++ {
		files, calm := f.listBeside(log)
		slices.SortStableFunc(files, byAge)
		found, all = nil, true
		for _, c := range files {
			if len(f.held)+len(found) >= maxHeld {
				all = false
				break
			}
			o, known, isOurs := f.judge(c, log, current)
			switch {
			case !isOurs:
			case o == nil:
				calm = false // it was renamed since it was listed, or is gone
			case !f.claims.mine(f, o, c):
				o.Close()
			default:
				found = append(found, &generation{identity: c.identity, real: log, known: known, file: o})
			}
		}
		if calm || looks == maxLooks {
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

// noteBeside takes note of the files with names of rotation that are there while the log has its
// name: they are other logs, or were read. It must be certain of that, or does nothing.
func (f *Follower) noteBeside(log string) {
	dir, err := os.Stat(filepath.Dir(log))
	if err == nil && f.followed && dir.ModTime().Equal(f.listed) || len(f.skipped) > 0 {
		return
	}
	files, calm := f.listBeside(log)
	now, gone := examinePath(log)
	if g := f.latest(); !calm || g != nil && (gone != nil || now.identity != g.identity) || g == nil && gone == nil {
		return // it rotates
	}
	f.followed = true
	if f.listed = (time.Time{}); err == nil && time.Since(dir.ModTime()) > time.Second { // else it may change unseen
		f.listed = dir.ModTime()
	}
	f.done = f.done[max(0, len(f.done)-keptDone):]
	f.beside = nil
	for _, c := range files {
		wasRead := slices.ContainsFunc(f.done, func(d Contents) bool { return d.identity == c.identity })
		if !wasRead && !f.isHeld(c.identity) && len(f.beside) < maxBeside && isRotated(filepath.Base(log), filepath.Base(c.path)) {
			f.beside = append(f.beside, c.identity)
		}
	}
}

// listBeside lists the directory of a log. A file that is renamed meanwhile may be missing
// from a listing: two that are alike miss none, and without them calm is false.
func (f *Follower) listBeside(log string) (files []file, calm bool) {
	var before []file
	place := make(map[identity]int) // in files
	for n := range maxListings {
		again, err := f.list(filepath.Dir(log))
		switch {
		case err == nil:
			f.said.Works()
		case !errors.Is(err, fs.ErrNotExist):
			if f.said.Fails(err.Error()) {
				f.log.Warn("cannot list the directory of the log: docket does not find rotated files that it has never seen at the path", "error", err)
			}
			return nil, false
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

// isRotated reports whether name is one that rotation gives to the log called base: a
// number, a date or "old" stands behind the name (manager.log.1, 0.log.20260105-100407)
// or within it (manager-2026-01-05T10-04-07.000.log). A name that counts in its own right
// is another log: 1.log is the next life of a container, or another writer's. Other words
// make another log (manager-audit.log), or what somebody keeps of this one
// (manager.log.bak). Compressed files are of no use: their contents are read before they
// are compressed.
func isRotated(base, name string) bool {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".gz", ".zst", ".bz2", ".xz", ".lz4", ".zip", ".bak", ".tmp", ".swp":
		return false
	}
	if name == base {
		return false
	}
	ext := filepath.Ext(base)
	stem := strings.TrimSuffix(base, ext)
	if rest, ok := strings.CutPrefix(name, base); ok {
		return isRotation(rest)
	}
	rest, ok := strings.CutPrefix(name, stem)
	return ok && strings.HasSuffix(rest, ext) && isRotation(strings.TrimSuffix(rest, ext))
}

// isRotation reports whether rotation may have added s to a name.
func isRotation(s string) bool {
	return len(s) > 1 && strings.ContainsRune(".-_", rune(s[0])) && (s[1] >= '0' && s[1] <= '9' || s[1:] == "old")
}
