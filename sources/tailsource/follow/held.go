package follow

import (
	"os"
	"slices"
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
	// happens to their name matters. nil: they were overwritten.
	file *os.File
	peek []byte // the first bytes of the contents, as many as were seen
	size int64  // how long the contents were when last seen
	// replaced is when a later generation was first seen with contents: the writer has
	// moved on. Zero: it may still write to this one.
	replaced time.Time
}

// Next returns what must be read first, nil if there is nothing. Call it again once
// that is finished.
func (f *Follower) Next() *Reader {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.held) == 0 {
		return nil
	}
	return newReader(f, f.held[0])
}

// Held is how many files are held to be read, and how long the latest was when last seen.
func (f *Follower) Held() (files int, latest int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if g := f.latest(); g != nil {
		latest = g.size
	}
	return len(f.held), latest
}

// History is what a state must have of the files: those that were read, and those that are
// other logs.
func (f *Follower) History() History {
	f.mu.Lock()
	defer f.mu.Unlock()
	return History{Followed: f.followed, Beside: slices.Clone(f.beside), Files: slices.Clone(f.done)}
}

// Retire says that the path is gone for good: what is held is read to its end, and the last of
// it is finished too.
func (f *Follower) Retire() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.retired = true
	if g := f.latest(); g != nil && g.replaced.IsZero() {
		g.replaced = time.Now()
	}
}

// position is how the reading of a generation stands as far as the names of files tell.
type position struct {
	file *os.File // nil: the contents are gone
	peek []byte   // what the contents were seen to begin with
	size int64    // how long the contents were when last seen
	// over is when the writer has moved on for long enough; zero: it was not seen to.
	over time.Time
	// moved: what comes next is not the same log, as with the next life of a container.
	moved bool
}

// position says how it stands with g, which is the first that is held.
func (f *Follower) position(g *generation) position {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := position{file: g.file, peek: g.peek, size: g.size}
	if !g.replaced.IsZero() {
		p.over = g.replaced.Add(f.grace)
	}
	p.moved = f.retired || len(f.held) > 1 && f.held[1].real != g.real
	return p
}

// differs says that the contents of g are no longer in file.
func (f *Follower) differs(g *generation, file *os.File) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if g.file == file { // else it was noticed already
		f.overwritten(g)
		f.noteReplaced()
	}
}

// finish lets go of g, the first that is held, which was read.
func (f *Follower) finish(g *generation, c Contents) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = f.held[1:]
	f.claims.finish(f, g.identity, c, slices.ContainsFunc(f.held, func(o *generation) bool { return o.identity == g.identity }))
	f.done = append(without(f.done, c.Generation), c)
	f.done = f.done[max(0, len(f.done)-maxDone):]
	if g.file != nil {
		g.file.Close()
	}
	signal(f.room)
}

// Close lets go of everything.
func (f *Follower) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, g := range f.held {
		if g.file != nil {
			g.file.Close()
		}
	}
	f.held = nil
}
