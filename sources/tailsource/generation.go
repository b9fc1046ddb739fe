package tailsource

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// generation is the contents of a file that is to be read: a log has one after the
// other, by rotation. Its fields are guarded by follower.mu, but for those that never
// change.
type generation struct {
	identity           // of the file; never changes
	real     string    // the path at which it was the latest; never changes
	known    *contents // what an earlier reading knows of it; nil: nothing. Never changes

	// file holds the contents. It stays open until they are read, so that nothing that
	// happens to their name matters. nil: they were overwritten, and no copy is to be
	// found.
	file *os.File
	// overwritten: the file has other contents by now, and these are in a copy, if at all.
	overwritten bool
	peek        []byte    // the first bytes of the contents, as many as were seen
	size        int64     // how long the contents were when last seen
	seen        time.Time // when this was last seen to be the latest, or earlier
	// replaced is when a later generation was first seen with contents: the writer has
	// moved on. Zero: it may still write to this one.
	replaced time.Time
}

// isCopy reports whether a file that begins with head begins with the contents of g. A
// few bytes prove nothing, except where a copy is expected.
func (g *generation) isCopy(head []byte) bool {
	const enough = 64
	return len(g.peek) > 0 && (g.overwritten || len(g.peek) >= enough) && bytes.HasPrefix(head, g.peek)
}

// isRotated reports whether name is one that rotation gives to the log called base: it
// goes on behind the name (manager.log.1, 0.log.20260105-100407) or within it
// (manager-2026-01-05T10-04-07.000.log), or counts (1.log after 0.log). Compressed
// files are of no use: their contents are read before they are compressed.
func isRotated(base, name string) bool {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".gz", ".zst", ".bz2", ".xz", ".lz4", ".zip", ".tmp", ".swp":
		return false
	}
	if name == base {
		return false
	}
	ext := filepath.Ext(base)
	stem := strings.TrimSuffix(base, ext)
	if rest, ok := strings.CutPrefix(name, base); ok {
		return strings.ContainsRune(".-_", rune(rest[0]))
	}
	if strings.Trim(stem, "0123456789") == "" && stem != "" {
		digits := strings.TrimLeft(name, "0123456789")
		return digits != name && strings.HasPrefix(digits, ext)
	}
	rest, ok := strings.CutPrefix(name, stem)
	return ok && rest != "" && strings.ContainsRune(".-_", rune(rest[0])) && strings.HasSuffix(rest, ext)
}
