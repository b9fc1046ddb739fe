package inventory

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// goneFiles decides about files that had a name and have none any more. top is the
// directory at the path, if there is one.
func (l *look) goneFiles(top dir) {
	v := l.v
	v.mu.Lock()
	defer v.mu.Unlock()
	held := make(map[string]bool) // stemKeys of claims
	for _, c := range v.claims {
		if c.stage == live && !l.present[c.ID] && l.known(c.Channel) {
			l.unnamed(top, c)
		}
	}
	for _, c := range v.claims {
		held[stemKey(c.Channel, c.Stem)] = true
	}
	for key, seen := range v.state.Seen {
		if !held[key] && !l.stems[key] && l.known(seen.Channel) {
			l.vanished(top, key, seen)
		}
	}
	maps.DeleteFunc(v.Gaps.pending, func(key string, _ bool) bool { _, seen := v.state.Seen[key]; return !seen })
}

// unnamed decides about a file that is held open and has no name any more: it was
// finished and deleted, or deleted while it was written. Nobody can ask for its lock any
// more but who has it. Called with mu held.
func (l *look) unnamed(top dir, c *claim) {
	key := stemKey(c.Channel, c.Stem)
	if !l.stems[key] && !l.gone && exists(top, c.Channel, c.name) {
		l.again = true // it was renamed meanwhile
		return
	}
	info, err := statFile(c.f)
	if err == nil {
		var free bool
		if free, err = unlocked(c.f); err == nil && !free {
			return // it is still written
		}
	}
	if err != nil {
		l.trouble[c.Path()] = fmt.Sprintf("cannot inspect the deleted file %s: %v", filepath.Join(l.v.Path, c.Path()), reason(err))
		return
	}
	// A segment of that stem is what Gatekeeper has recovered of this one.
	if c.name.kind == liveSegment && l.stems[key] {
		c.f.Close()
		delete(l.v.claims, c.ID)
		l.v.forgetSeen(c.Channel, c.Stem)
		return
	}
	c.Name = c.Stem + ".log" // as it was called last, if it ever was finished
	c.Size, c.stage, c.IsUnnamed = info.size, ready, true
}

// vanished notes that a file was gone before it could be claimed. Called with mu held.
func (l *look) vanished(top dir, key string, seen seenFile) {
	name := parseName(seen.File)
	if !l.gone && exists(top, seen.Channel, name) {
		l.again = true
		return
	}
	c := newClaim(seen.Channel, seen.File, 0)
	c.ID, c.stage, c.IsGap = "gap-"+key, ready, true
	if l.v.claims[c.ID] != nil {
		return
	}
	l.v.claims[c.ID] = c
	if l.v.Gaps.pending[key] { // by a Run that ended before the record was durable
		return
	}
	l.v.Gaps.pending[key] = true
	l.v.Gaps.lost.Add(1)
	l.v.Gaps.bytes.Add(uint64(seen.Size))
	args := []any{"file", filepath.Join(l.v.Path, c.Path())}
	if seen.Size > 0 { // it had so many at least
		args = append(args, "bytes", seen.Size)
	}
	l.v.Log.Error("a file vanished before docket read it: its records are lost", args...)
}

// exists reports whether a file has one of its names, also while it is renamed.
func exists(top dir, channel string, name fileName) bool {
	suffixes := segmentSuffixes
	if name.kind.isRun() {
		suffixes = runSuffixes
	}
	d, err := top.sub(channel)
	if err != nil {
		return !missing(err)
	}
	defer d.close()
	return slices.ContainsFunc(suffixes, func(suffix string) bool {
		_, err := d.stat(name.stem + suffix)
		return !missing(err)
	})
}

// report says what is wrong.
func (l *look) report() {
	if len(l.odd) > 0 {
		l.trouble["/odd"] = fmt.Sprintf("%s: ignored, not written by Gatekeeper. Remove such files: Gatekeeper up to 3.23 counts every file as an audit result and deletes it",
			some(slices.Sorted(maps.Values(l.odd))))
	}
	l.v.Failures.SetAll("scan/", l.trouble)
}

// some lists the first of many names.
func some(names []string) string {
	if more := len(names) - maxNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), more)
	}
	return strings.Join(names, ", ")
}

// prune forgets the files that were read and are gone.
func (v *Inventory) prune(l *look) {
	v.mu.Lock()
	for id, was := range v.state.Done {
		if !l.present[id] && v.claims[id] == nil && l.known(was.Channel) {
			delete(v.state.Done, id)
			v.dirty = true
		}
	}
	v.mu.Unlock()
}
