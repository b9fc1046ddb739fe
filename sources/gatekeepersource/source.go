// Package gatekeepersource reads what Gatekeeper exports to a disk: the files of its
// audits and, from 3.24 on, the segments of its admission decisions.
//
//	inventory/   which files there are: claimed, shelved, gone
//	runs/        what is in them, on its way into the queue
//	config.go    the source "gatekeeper": its configuration
//	source.go    Run: an inventory and its reader
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
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/failures"
	"github.com/docket-export/docket/sources/gatekeepersource/inventory"
	"github.com/docket-export/docket/sources/gatekeepersource/runs"
)

// stopWait is how long a stop goes on reading what is there. What it does not come to
// stays claimed.
const stopWait = 3 * time.Second

// source reads the files below one path.
type source struct {
	config   Config
	env      sources.Env
	failures *failures.List
	gaps     inventory.Gaps
	audits   sources.AuditLog
	// pieceBytes and stopWait are the constants, but in tests: what is sent does not
	// depend on the one, and what a stop does not on the other, unless it is cut off.
	pieceBytes int
	stopWait   time.Duration
}

// Connections is 0: nobody connects to a file.
func (s *source) Connections() int { return 0 }

// Report says what cannot be read, and how much is known to be lost.
func (s *source) Report() sources.Report {
	return sources.Report{Trouble: s.failures.Text(), Lost: s.gaps.Lost(), LostBytes: s.gaps.Bytes(), PassedOver: sources.PassedOver("ForeignFile", s.gaps.Foreign()), Audits: s.audits.Seen()}
}

// CheckState implements sources.Stateful.
func (s *source) CheckState() error {
	if err := inventory.Check(s.env.StateDir); err != nil {
		return err
	}
	return runs.Check(s.env.StateDir)
}

// Run reads files until ctx is done; see sources.Source. It then looks once more and
// reads what it can within stopWait.
func (s *source) Run(ctx context.Context, in sources.Intake, ready func()) error {
	if err := s.checkPlace(); err != nil {
		return err
	}
	files, err := inventory.Open(inventory.Options{
		Path: s.config.Path, DeleteAfterRead: s.config.DeleteAfterRead, StateDir: s.env.StateDir,
		HoldOpen: s.env.Redaction != nil, // it would lie below the queue's directory as it came
		Failures: s.failures, Gaps: &s.gaps, Log: s.env.Log,
	})
	if err != nil {
		return err
	}
	defer files.Close()
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
		files.Watch(scan)
	})
	err = s.reader(files, in).Run(hard, scanned)
	endScan()
	wg.Wait()
	_ = files.Save() // what was seen and not claimed for good is known to be lost, should it go
	if ctx.Err() != nil {
		return nil // whatever was cut off is still claimed
	}
	return err
}

func (s *source) reader(files runs.Files, in sources.Intake) *runs.Reader {
	return runs.NewReader(runs.Options{
		Env: s.env, Delta: s.config.Delta, SnapshotInterval: time.Duration(s.config.SnapshotInterval),
		PieceBytes: s.pieceBytes, Failures: s.failures, Audits: &s.audits,
	}, files, in)
}

// checkPlace reports a state that Gatekeeper would delete.
func (s *source) checkPlace() error {
	state, err := filepath.Abs(s.env.StateDir.String())
	if err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	below, err := filepath.Rel(resolve(s.config.Path), resolve(state))
	if err == nil && below != ".." && !strings.HasPrefix(below, "../") {
		return fmt.Errorf("queue.directory must not be below %s: Gatekeeper deletes files there", s.config.Path)
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
