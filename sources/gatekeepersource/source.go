// Package gatekeepersource reads what Gatekeeper exports to a disk: the files of its
// audits and, from 3.24 on, the segments of its admission decisions.
//
//	config.go    the source "gatekeeper": its configuration
//	source.go    Run: a scanner and a reader
//	names.go     what a file's name says of it
//	tree.go      directories, without a way out of them
//	scan.go      a look at all channels: what is there is claimed
//	gone.go      what had a name and has none any more
//	claims.go    the files that were claimed, and what became of them
//	shelf.go     where they have names of their own
//	state.go     what is known after a restart
//	lines.go     a file cut into lines
//	entry.go     what a line says
//	text.go      the parts of a JSON text
//	tally.go     the lines of an audit counted: its run record
//	outbox.go    the lines of a file in pieces, sent while more are read
//	read.go      a claimed file on its way into the queue
//	changes.go   the same, as changes from one audit to the next
//	troubles.go  what is wrong, for the status
//
// # The life of a file
//
// Gatekeeper keeps few files and deletes the oldest whether it was read or not, so the
// scanner takes hold of each as soon as it sees it, and waits for nothing. A file that
// is being written (".txt", ".open") is held open, which neither locks nor changes it,
// and not read. Once it is finished it gets a second name below the state directory, a
// hard link; where that cannot be made, or the source redacts, it stays open. The reader takes what is finished,
// the oldest first, sends it piece by piece, each while the next is read and parsed,
// waits until all is durable, and lets go of it.
//
// A run that was begun and not finished is abandoned if there is a newer one and nobody
// holds its lock; only of such a file is the lock ever tested, as Gatekeeper waits for
// that of its newest.
//
// # Exactly once
//
// Each file is a producer of its own: its lines are numbered by their place in it, and
// the queue keeps the number of the last that is durable. After a crash a file is read
// again from its start, to count, and what the queue has is not sent again. So the state
// may be lost, or be old: it only says which files need not be read again, what the last
// complete run had, and what was seen and not yet claimed. Only a file that docket took
// for finished and that has grown since is sent twice.
package gatekeepersource

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/feed"
	"github.com/docket-export/docket/sources/watch"
)

// stopWait is how long a stop goes on reading what is there. What it does not come to
// stays claimed.
const stopWait = 3 * time.Second

// source reads the files below one path.
type source struct {
	config   Config
	env      sources.Env
	troubles *troubles
	lost     atomic.Uint64   // gaps since the start of the process
	gaps     map[string]bool // those counted there that are not durable yet; the scanner's
	// pieceBytes and stopWait are the constants, but in tests: what is sent does not
	// depend on the one, and what a stop does not on the other, unless it is cut off.
	pieceBytes int
	stopWait   time.Duration
}

// Connections is 0: nobody connects to a file.
func (s *source) Connections() int { return 0 }

// Report says what cannot be read, and how much is known to be lost.
func (s *source) Report() sources.Report {
	return sources.Report{Trouble: s.troubles.text(), Lost: s.lost.Load()}
}

// Run reads files until ctx is done; see sources.Source. It then looks once more and
// reads what it can within stopWait.
func (s *source) Run(ctx context.Context, in sources.Intake, ready func()) error {
	if err := s.checkPlace(); err != nil {
		return err
	}
	v, err := openInventory(s)
	if err != nil {
		return err
	}
	defer v.close()
	ready()

	hard, cutOff := context.WithCancel(context.WithoutCancel(ctx))
	defer cutOff()
	stopped := context.AfterFunc(ctx, func() { time.AfterFunc(s.stopWait, cutOff) })
	defer stopped()

	scan, endScan := context.WithCancel(ctx)
	scanned := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(scanned)
		v.watch(scan)
	})
	err = newReader(v, in).run(hard, scanned)
	endScan()
	wg.Wait()
	_ = v.save() // what was seen and not claimed for good is known to be lost, should it go
	if ctx.Err() != nil {
		return nil // whatever was cut off is still claimed
	}
	return err
}

// checkPlace reports a state that Gatekeeper would delete.
func (s *source) checkPlace() error {
	state, err := filepath.Abs(s.env.StateDir.String())
	if err != nil {
		return fmt.Errorf("directory of the state: %w", err)
	}
	below, err := filepath.Rel(resolve(s.config.Path), resolve(state))
	if err == nil && below != ".." && !strings.HasPrefix(below, "../") {
		return fmt.Errorf("queue.directory must not lie below %s: Gatekeeper deletes what is there", s.config.Path)
	}
	return nil
}

// resolve is a path without links, as far as it can be told of what need not exist yet.
func resolve(place string) string {
	if resolved, err := filepath.EvalSymlinks(place); err == nil {
		return resolved
	}
	parent := filepath.Dir(place)
	if parent == place {
		return place
	}
	return filepath.Join(resolve(parent), filepath.Base(place))
}

// watch scans whenever something may have changed, until ctx is done, and once more.
func (v *inventory) watch(ctx context.Context) {
	w := watch.New(pollInterval, v.src.env.Log)
	defer w.Close()
	s := &scanner{v: v, watcher: w}
	for {
		s.scan()
		select {
		case <-w.C():
		case <-v.relook:
		case <-v.saveDue():
			_ = v.save()
		case <-ctx.Done():
			s.scan()
			return
		}
	}
}

// saveDue fires when the state is to be written; nil: there is nothing to write.
func (v *inventory) saveDue() <-chan time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.dirty {
		return nil
	}
	return time.After(saveInterval - time.Since(v.saved))
}

// reader sends what the scanner has claimed. There is one.
type reader struct {
	v       *inventory
	in      sources.Intake
	reasons map[string]string // why the last run of a channel was not complete, for the log
	changes map[string]*changes
}

func newReader(v *inventory, in sources.Intake) *reader {
	return &reader{v: v, in: in, reasons: make(map[string]string), changes: make(map[string]*changes)}
}

// run reads files until the scanner has ended and there are none left, or ctx is done.
// An error is that of the intake.
func (r *reader) run(ctx context.Context, scanned <-chan struct{}) error {
	for {
		last := false
		select {
		case <-scanned:
			last = true // before next is asked: what the last scan has found is read
		default:
		}
		c := r.v.next(time.Now())
		if c != nil {
			if err := r.take(ctx, c); err != nil {
				return err
			}
			continue
		}
		_ = r.v.save()
		if last {
			return nil
		}
		select {
		case <-r.v.wake:
		case <-scanned:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// take reads one file, and postpones it where it cannot be read.
func (r *reader) take(ctx context.Context, c *claim) error {
	about := "file/" + c.id
	err := r.read(ctx, c)
	if conflict, ok := errors.AsType[*feed.Conflict](err); ok {
		err = r.readRenamed(ctx, c, conflict)
	}
	if err == nil {
		r.v.src.troubles.set(about, "")
		r.v.finish(c)
		return nil
	}
	fault, ok := errors.AsType[*fileError](err)
	if !ok {
		return err
	}
	if fault.gone {
		r.v.src.troubles.set(about, "")
		r.v.lose(c)
		return nil
	}
	r.v.src.troubles.set(about, fmt.Sprintf("cannot read %s, it is tried again: %v", c.path(), fault.err))
	r.v.postpone(c, time.Now())
	return nil
}

// fileError says that a file could not be read to its end. Others may be.
type fileError struct {
	err  error
	gone bool // it is not among the claims any more
}

func (e *fileError) Error() string { return e.err.Error() }

func (e *fileError) Unwrap() error { return e.err }
