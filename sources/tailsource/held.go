package tailsource

import (
	"bytes"
	"os"
	"slices"
	"time"
)

// The methods of this file are what the reader needs of a follower.

// next is what is to be read first; nil: nothing is.
func (f *follower) next() *generation {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.held) == 0 {
		return nil
	}
	return f.held[0]
}

// position is how the reading of a generation stands as far as the names of files tell.
type position struct {
	file *os.File // nil: there is nothing more to read
	size int64    // how long the contents were when last seen
	// replaced is when the writer was first seen to have moved on; zero: it was not.
	replaced time.Time
	// moved: what comes next is not the same log, as with the next life of a container.
	moved bool
}

// position says how it stands with g, which is the first that is held.
func (f *follower) position(g *generation) position {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := position{file: g.file, size: g.size, replaced: g.replaced}
	p.moved = len(f.held) > 1 && f.held[1].real != g.real
	return p
}

// differs says that the contents of g, which begin with head, are no longer in file.
func (f *follower) differs(g *generation, file *os.File, head []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if g.file == file { // else it was noticed already
		g.peek = bytes.Clone(head) // what was seen here may have been the new contents
		f.overwritten(g)
		f.noteReplaced()
	}
}

// finish lets go of g, the first that is held, which was read.
func (f *follower) finish(g *generation, c contents) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = f.held[1:]
	f.done = append(slices.DeleteFunc(f.done, func(o contents) bool { return o.Generation == c.Generation }), c)
	f.done = forget(f.done, f.lastSeen())
	if g.file != nil {
		g.file.Close()
	}
	signal(f.room)
}

// seenOf is when g was last seen at the path.
func (f *follower) seenOf(g *generation) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return g.seen
}

// close lets go of everything.
func (f *follower) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, g := range f.held {
		if g.file != nil {
			g.file.Close()
		}
	}
	f.held = nil
}
