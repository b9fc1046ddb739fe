package follow

import (
	"os"
	"time"
)

// generation is the contents of a file that is to be read: a log has one after the
// other, by rotation. Its fields are guarded by Follower.mu, but for those that never
// change.
type generation struct {
	identity           // of the file; never changes
	real     string    // the path at which it was the latest; never changes
	known    *Contents // what an earlier reading knows of it; nil: nothing. Never changes

	// file holds the contents. It stays open until they are read, so that nothing that
	// happens to their name matters. nil: they were overwritten, and no copy is to be
	// found.
	file *os.File
	// overwritten: the file has other contents by now, and these are in a copy, if at all.
	overwritten bool
	copied      identity  // of the copy; zero: there is none
	peek        []byte    // the first bytes of the contents, as many as were seen
	taken       taken     // what the reader had of them when it last looked here
	size        int64     // how long the contents were when last seen
	seen        time.Time // when this was last seen to be the latest, or earlier
	// replaced is when a later generation was first seen with contents: the writer has
	// moved on. Zero: it may still write to this one.
	replaced time.Time
}

// isIn reports whether the contents of g are in a file of size bytes, as far as was seen
// of them. A file that cannot be read has them not.
func (g *generation) isIn(file *os.File, size int64) bool {
	if !begins(file, g.peek) || g.known != nil && !g.known.matches(file, size) {
		return false
	}
	goesOn, err := g.taken.isIn(file)
	return err == nil && goesOn
}

// isFile reports whether a file has the contents of g, or a copy of them that is read.
func (g *generation) isFile(id identity) bool {
	return id == g.copied || id == g.identity && !g.overwritten
}
