package follow

import (
	"path/filepath"
	"strings"
	"time"
)

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
	g.note(info.size)
}

// overwritten says that the file of g has other contents now: it was truncated. The
// rest of the old ones is read from the copy that whoever truncated it has made.
func (f *Follower) overwritten(g *generation) {
	file := g.file
	if g.file = nil; !g.overwritten { // else it was a copy, and not of these contents
		g.overwritten = true
		g.file, g.copied = f.copyOf(g)
	}
	g.replaced = time.Now().Add(-f.grace) // nobody writes to a copy
	if g != f.latest() {
		if file != nil {
			file.Close()
		}
		return
	}
	next := &generation{identity: g.identity, real: g.real, file: file}
	// Beyond the bound, if it comes to that: the file is open already.
	found, _ := f.between(g.real, next)
	f.hold(found...)
	f.hold(next)
}

// noteReplaced notes from which files the writer has moved on.
func (f *Follower) noteReplaced() {
	for i, g := range f.held[:max(0, len(f.held)-1)] {
		next := f.held[i+1]
		if !g.replaced.IsZero() {
			continue
		}
		if info, err := next.look(); err == nil {
			next.note(info.size)
		}
		if next.size > 0 || i+2 < len(f.held) {
			g.replaced = movedOn(g, next)
		}
	}
}

// movedOn is when the writer has last written to g, or begun next, whichever was later.
// Where the file system does not tell it is now.
func movedOn(g, next *generation) time.Time {
	now := time.Now()
	info, err := g.look()
	if err != nil || next.Born == 0 {
		return now
	}
	at := time.Unix(0, next.Born)
	if info.modified.After(at) {
		at = info.modified
	}
	if at.After(now) {
		return now
	}
	return at
}

// isRotated reports whether name is one that rotation gives to the log called base: a
// number, a date or "old" stands behind the name (manager.log.1, 0.log.20260105-100407)
// or within it (manager-2026-01-05T10-04-07.000.log). A name that counts in its own right is
// another log: 1.log is the next life of a container, or another writer's. Other words make another log (manager-audit.log), or what somebody keeps of this one
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
