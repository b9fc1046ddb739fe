package follow

import (
	"cmp"
	"maps"
	"os"
	"slices"
	"time"
)

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

// besides are the files that are known for other logs, in a fixed order.
func (f *Follower) besides() []identity {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.SortedFunc(maps.Keys(f.beside), func(a, b identity) int { return cmp.Or(cmp.Compare(a.Born, b.Born), cmp.Compare(a.Inode, b.Inode)) })
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
	signal(f.wake)
}

// position is how the reading of a generation stands as far as the names of files tell.
type position struct {
	file   *os.File // nil: there is nothing more to read
	copied identity // of the file, if it is a copy
	peek   []byte   // what the contents were seen to begin with
	size   int64    // how long the contents were when last seen
	// over is when the writer has moved on for long enough; zero: it was not seen to.
	over time.Time
	// moved: what comes next is not the same log, as with the next life of a container.
	moved bool
}

// position says how it stands with g, which is the first that is held, and hears what
// was taken of it.
func (f *Follower) position(g *generation, t taken) position {
	f.mu.Lock()
	defer f.mu.Unlock()
	g.taken = t
	p := position{file: g.file, copied: g.copied, peek: g.peek, size: g.size}
	if !g.replaced.IsZero() {
		p.over = g.replaced.Add(f.grace)
	}
	p.moved = f.retired || len(f.held) > 1 && f.held[1].real != g.real
	return p
}

// differs says that the contents of g are no longer in file.
func (f *Follower) differs(g *generation, file *os.File) {
	f.claims.scan.Lock()
	defer f.claims.scan.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if g.file == file { // else it was noticed already
		if len(g.taken.head) > 0 && !g.overwritten { // what was seen may have been the new contents
			g.peek, g.size = g.taken.head, g.taken.pos
		}
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
	f.done = append(slices.DeleteFunc(f.done, func(o Contents) bool { return o.Generation == c.Generation }), c)
	f.done = forget(f.done, f.lastSeen())
	if g.file != nil {
		g.file.Close()
	}
	signal(f.room)
}

// seenOf is when g was last seen at the path.
func (f *Follower) seenOf(g *generation) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return g.seen
}

// Close lets go of everything.
func (f *Follower) Close() {
	f.watch.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, g := range f.held {
		if g.file != nil {
			g.file.Close()
		}
	}
	f.held = nil
}
