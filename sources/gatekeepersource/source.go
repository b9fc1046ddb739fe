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
// scanner claims each finished file as soon as it sees it, and waits for nothing. The file
// gets a second name below the state directory: a hard link, or a copy where no link can be
// made. Where the source redacts, it is held open instead. A file that is being written
// (".txt", ".open") is left alone. The reader takes the claims, the oldest first, sends each
// piece by piece, waits until all is durable, and lets go of it.
//
// A run that was begun and not finished is abandoned if there is a newer one, and nothing was
// written to it for minutes.
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

const (
	// poll is how often docket looks for files. A finished file stays for minutes, unless
	// maxAuditResults is 0.
	poll = time.Second
	// restFor is how long a run that a newer one supersedes must be at rest to count as
	// abandoned: longer than an audit pauses between two violations.
	restFor = 3 * time.Minute
)

// source reads the files below one path.
type source struct {
	config   Config
	env      sources.Env
	failures *failures.List
	gaps     inventory.Gaps
	audits   sources.AuditLog
	// As the constants, but in tests: what is sent does not depend on pieceBytes.
	pieceBytes              int
	stopWait, poll, restFor time.Duration
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
		Poll:     s.poll, RestFor: s.restFor,
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
