package follow

import (
	"maps"
	"os"
	"slices"
	"sync"
)

// Claims say which follower of a source has which file, so that a file under several names, at
// the same time or one after the other, is read once. Files are told apart by their inodes.
type Claims struct {
	scan sync.Mutex // held while a follower looks: what it finds free is free when it takes it

	mu   sync.Mutex
	held map[identity]*Follower // guarded by mu
	done map[identity]Claim     // guarded by mu
}

// Claim is a file that was read, or that a state says is being read.
type Claim struct {
	Contents
	Path string `json:"path"` // of the follower
}

// NewClaims returns claims on nothing.
func NewClaims() *Claims {
	return &Claims{held: make(map[identity]*Follower), done: make(map[identity]Claim)}
}

// Restore takes over what a state knows of the log at path.
func (c *Claims) Restore(path string, files ...Contents) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range files {
		c.done[f.identity] = Claim{f, path}
	}
}

// Read are the files that were read, the latest of them, so many at most. Older ones are
// forgotten.
func (c *Claims) Read(most int) []Claim {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []Claim
	for _, f := range c.done {
		if f.Done {
			list = append(list, f)
		}
	}
	slices.SortFunc(list, func(a, b Claim) int { return b.Modified.Compare(a.Modified) })
	for _, f := range list[min(len(list), most):] {
		delete(c.done, f.identity)
	}
	return list[:min(len(list), most)]
}

// mine reports whether f may read an open file.
func (c *Claims) mine(f *Follower, o *os.File, info file) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if owner := c.held[info.identity]; owner != nil {
		return owner == f
	}
	d, ok := c.done[info.identity]
	return !ok || d.Path == f.path || !d.matches(o, info.size)
}

func (c *Claims) hold(f *Follower, id identity) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held[id] = f
}

func (c *Claims) finish(f *Follower, id identity, read Contents, more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !more {
		delete(c.held, id)
	}
	c.done[id] = Claim{read, f.path}
}

// Leave lets go of what f, which has ended, has held: it was read as far as known says.
func (c *Claims) Leave(f *Follower, known []Contents) {
	c.mu.Lock()
	maps.DeleteFunc(c.held, func(_ identity, owner *Follower) bool { return owner == f })
	c.mu.Unlock()
	c.Restore(f.path, known...)
}
