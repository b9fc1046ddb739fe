package delta

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/sources/statefile"
)

// maxStanding is how many violations are tracked. A cluster with more of them has another
// problem than how often they are repeated.
const maxStanding = 100_000

// MemoryBytes is what a Tracker has in memory at most.
const MemoryBytes = maxStanding * 80

// retries is how often in an interval a snapshot is begun that incomplete runs do not
// bring to its end. It bounds what is repeated when no run is ever complete.
const retries = 6

// maxRuns is how many committed runs are known again. An engine keeps far fewer files
// of runs than that.
const maxRuns = 64

// ErrTooMany says that a Tracker cannot track more standing violations.
var ErrTooMany = fmt.Errorf("delta: more than %d standing violations: docket sends the rest in every run, unchanged", maxStanding)

// ErrTooLong says that the record of a violation would be longer than a record may be,
// although its line is not.
var ErrTooLong = errors.New("delta: the record of a violation exceeds limits.maxRecordBytes: docket sends the violation in every run, unchanged")

// Tracker is the state of one audit between its runs. Its methods and those of its runs
// must not overlap.
type Tracker struct {
	// MaxRecordBytes is how long a record may be without its "\n"; 0 is no limit. Set it
	// before the first Begin.
	MaxRecordBytes int
	path           disk.Path
	interval       time.Duration // between snapshots, from the next Commit on
	maxStanding    int

	state    state            // as the file at path has it
	standing map[key]standing // those of state, and what run has opened
	mark     uint32           // of the run that was begun last; of no earlier one
	run      *Run             // begun last; nil once it is committed
	scratch  []byte
}

// standing is a violation that stands.
type standing struct {
	opened *string // the run in which it was opened, in JSON; one text for all of a run
	seen   uint32  // mark of the last run that had it
}

// Open reads the state at path. Without a file there, no violation stands. snapshotInterval is the time between snapshots, by the ids of the runs.
// If it is not positive, there are no snapshots.
//
// A damaged state is set aside and reported as a *statefile.DamagedError. The tracker can
// be used then, and knows no violation. With any other error the tracker is nil. The error
// is a *fileversion.Error if this docket does not read the version of the state.
func Open(path disk.Path, snapshotInterval time.Duration) (*Tracker, error) {
	t := &Tracker{path: path, interval: snapshotInterval, maxStanding: maxStanding, standing: make(map[key]standing)}
	t.state.Interval = snapshotInterval
	err := t.load()
	if _, damaged := errors.AsType[*statefile.DamagedError](err); err != nil && !damaged {
		return nil, err
	}
	return t, err
}

// Close gives up a run that was not committed.
func (t *Tracker) Close() {
	if t.run != nil && t.run.next != nil {
		t.run.next.file.Close()
		t.run.next = nil
	}
}

// Begin starts a run, known by the id that the engine gave it, a time in RFC 3339. An
// earlier run that was not committed is discarded.
func (t *Tracker) Begin(run string) *Run {
	t.Close()
	if t.run != nil && t.run.changes.Opened > 0 {
		t.forget(func(s standing) bool { return s.opened == t.run.quoted })
	}
	t.mark++
	quoted, _ := json.Marshal(run) // of a string: it cannot fail
	text := string(quoted)
	t.run = &Run{
		t: t, id: run, quoted: &text,
		known:    run != "" && slices.Contains(t.state.Runs, run),
		late:     t.state.late(run),
		snapshot: t.state.snapshotDue(run),
	}
	return t.run
}

// forget removes the violations that are gone.
func (t *Tracker) forget(gone func(standing) bool) {
	before := len(t.standing)
	maps.DeleteFunc(t.standing, func(_ key, s standing) bool { return gone(s) })
	if len(t.standing) < before/2 { // a map never gets smaller
		kept := make(map[key]standing, len(t.standing))
		maps.Copy(kept, t.standing)
		t.standing = kept
	}
}

// late reports whether a run is older than the one that was committed last. It is
// compared with that one alone: a clock that was set back makes one run late, not all.
func (s *state) late(run string) bool {
	if len(s.Runs) == 0 {
		return false
	}
	since, ok := between(s.Runs[len(s.Runs)-1], run)
	return ok && since < 0
}

// snapshotDue reports whether a run is to repeat what stands.
func (s *state) snapshotDue(run string) bool {
	if _, err := time.Parse(time.RFC3339, run); err != nil || s.Interval <= 0 || s.late(run) {
		return false
	}
	return elapsed(s.Snapshot, run, s.Interval) && elapsed(s.Begun, run, s.Interval/retries)
}

// elapsed reports whether a run is at least d after another; it is when there was no
// other, or when the clock was set back since.
func elapsed(before, run string, d time.Duration) bool {
	since, ok := between(before, run)
	return !ok || since < 0 || since >= d
}

// between is the time from one run to another, if both have one.
func between(before, after string) (time.Duration, bool) {
	b, errBefore := time.Parse(time.RFC3339, before)
	a, errAfter := time.Parse(time.RFC3339, after)
	return a.Sub(b), errBefore == nil && errAfter == nil
}
