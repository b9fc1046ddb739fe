package queue

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/outage"
)

const (
	// prewriteBytes is how much of a new file is written and synced at once. The
	// committer waits for no more than that.
	prewriteBytes = 1 << 20
	// largeCommit is the size of a commit from which on it no longer pays that its
	// blocks have been written before: a sync costs the same to within 3 %, at 16 KiB
	// half as much again (measured). To write every byte twice would take the disk
	// from the commits when they need it most.
	largeCommit = 128 << 10
	// prewriteRest is how long the preparing rests after a large commit.
	prewriteRest = 200 * time.Millisecond
)

// segmentPool has the file of the next segment ready before it is needed: one whose
// blocks are its own, so that a full disk is met here and not by a commit, and, as
// far as there was time, have been written before, which makes the sync of a small
// commit faster. Its methods may be called at the same time.
type segmentPool struct {
	fsys disk.FS
	dir  string
	size int64 // of each file
	// minFree is Options.MinFreeBytes: what a new file must leave free on the file system.
	minFree atomic.Int64

	mu     sync.Mutex
	next   *newFile // nil while none is ready
	number int      // of the last name given
}

// newFile is the file of a segment that is not begun yet.
type newFile struct {
	disk.File
	name    string
	written int64 // up to here its blocks have been written
	size    int64
}

// get returns the file for a segment that begins with a commit of need bytes,
// header included. It belongs to the caller, under a name that Open takes for
// nothing.
func (s *segmentPool) get(need int64) (*newFile, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.makeReady(); err != nil {
		return nil, err
	}
	f := s.next
	if need > f.size {
		if err := s.reserve(f, need); err != nil {
			return nil, err
		}
		f.size = need
	}
	s.next = nil
	return f, nil
}

// reserve makes f size bytes long, if the file system has as much to give.
func (s *segmentPool) reserve(f *newFile, size int64) error {
	if err := s.checkSpace(size - f.size); err != nil {
		return err
	}
	return allocate(f, size)
}

// prepare sees to it that there is a file that comes next, and goes on writing its
// blocks unless resting is set; done says that nothing is left to do. Without canGrow
// no file is made.
func (s *segmentPool) prepare(canGrow, resting bool) (done bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil && !canGrow {
		return true, nil
	}
	if err := s.makeReady(); err != nil {
		return true, err
	}
	f := s.next
	if f.written >= f.size || resting {
		return f.written >= f.size, nil
	}
	_, err = f.WriteAt(zeros[:min(prewriteBytes, f.size-f.written)], f.written)
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		// A file that failed is never synced again.
		s.next = nil
		f.Close()
		return true, errors.Join(fmt.Errorf("%s: prepare: %w", f.name, err), s.fsys.Remove(s.path(f.name)))
	}
	f.written += prewriteBytes
	return f.written >= f.size, nil
}

var zeros = make([]byte, prewriteBytes)

// makeReady sees to it that there is a next file. Callers hold mu.
func (s *segmentPool) makeReady() (err error) {
	if s.next == nil {
		s.next, err = s.create()
	}
	return err
}

// create makes a file of full size. Where the file system cannot promise that,
// it grows as it is written.
func (s *segmentPool) create() (*newFile, error) {
	if err := s.checkSpace(s.size); err != nil {
		return nil, err
	}
	name := s.newName()
	f, err := s.fsys.Create(s.path(name))
	if err != nil {
		return nil, fmt.Errorf("%s: create: %w", name, err)
	}
	n := &newFile{File: f, name: name, size: s.size}
	if err := allocate(n, s.size); err != nil {
		f.Close()
		return nil, errors.Join(err, s.fsys.Remove(s.path(name)))
	}
	return n, nil
}

func allocate(f *newFile, size int64) error {
	if err := f.Allocate(size); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("%s: reserve %d bytes: %w", f.name, size, err)
	}
	return nil
}

// checkSpace fails when size bytes more would take what must stay free.
func (s *segmentPool) checkSpace(size int64) error {
	total, free, err := s.fsys.Space(s.dir)
	if err != nil {
		return fmt.Errorf("space of %s: %w", s.dir, err)
	}
	if minFree := minFreeOf(s.minFree.Load(), total); minFree > 0 && free-size < minFree {
		return fmt.Errorf("the next segment needs %d bytes: %d are free on the file system of %s, and minFreeBytes reserves %d: %w",
			size, free, s.dir, minFree, unix.ENOSPC)
	}
	return nil
}

// newName names a file that is about to be begun.
func (s *segmentPool) newName() string {
	s.number++
	return state.BeginPrefix + strconv.Itoa(s.number) + disk.NewSuffix
}

// close removes the next file, to which no frame was written.
func (s *segmentPool) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		return
	}
	s.next.Close()
	_ = s.fsys.Remove(s.path(s.next.name)) // one that stays is removed by the next Open
	s.next = nil
}

func (s *segmentPool) path(name string) string { return filepath.Join(s.dir, name) }

// prepareLoop keeps the next segment ready.
func (q *Queue) prepareLoop() {
	defer func() {
		if q.checkGround() == nil {
			q.pool.close()
		}
	}()
	var said outage.Log
	for {
		select {
		case <-q.prepare:
		case <-q.stop:
			return
		}
		if q.checkGround() != nil {
			continue
		}
		for done := false; !done && !q.stopping(); {
			resting := q.commitsAreLarge()
			var err error
			done, err = q.pool.prepare(q.canGrow(), resting)
			if err == nil {
				said.Works()
			} else if said.Fails(outage.Cause(err)) {
				q.opts.Log.Warn("queue cannot prepare its next segment: docket stores records until the current segment is full", "error", err)
			}
			if resting && !done {
				q.restFromPreparing()
			}
		}
	}
}

// commitsAreLarge reports whether a large commit was made lately.
func (q *Queue) commitsAreLarge() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return time.Since(q.lastLarge) < prewriteRest
}

// restFromPreparing waits a while, but not when the file that comes next was taken
// or the queue closes.
func (t *tokens) restFromPreparing() {
	select {
	case <-time.After(prewriteRest):
	case <-t.prepare:
	case <-t.stop:
	}
}

func (t *tokens) stopping() bool {
	select {
	case <-t.stop:
		return true
	default:
		return false
	}
}
