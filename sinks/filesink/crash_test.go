package filesink

import (
	"context"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/sinks"
)

// script is a delivery. Between them the scripts make every change in every order
// the sink knows. Files are finished at scriptMaxBytes unless they say otherwise.
type script struct {
	batches []sinks.Batch
	config  func(c *Config, batch int) // for each batch; nil: as it is
	restart bool                       // before every batch
}

// Three or four records.
const scriptMaxBytes = 150

var midnight = time.Date(2026, 1, 6, 0, 0, 0, 0, time.UTC)

var oneQueue = []sinks.Batch{batch(queueA, 1, 2), batch(queueA, 3, 3), batch(queueA, 4, 8), batch(queueA, 9, 9)}

var gapped = []sinks.Batch{
	withGaps(batch(queueA, 3, 4), sinks.Gap{From: 1, To: 2, Reason: sinks.Filtered}),
	withGaps(sinks.Batch{Queue: queueA}, sinks.Gap{From: 5, To: 6, Reason: sinks.Filtered}, sinks.Gap{From: 7, To: 9, Reason: sinks.Dropped}),
	withGaps(batch(queueA, 11, 13), sinks.Gap{From: 10, To: 10, Reason: sinks.Corrupt}, sinks.Gap{From: 14, To: 15, Reason: sinks.DeadLettered}),
	withGaps(batch(queueA, 16, 18), sinks.Gap{From: 19, To: 19, Reason: sinks.Filtered}),
	withGaps(sinks.Batch{Queue: queueA}, sinks.Gap{From: 20, To: 29, Reason: sinks.Filtered}),
	batch(queueA, 30, 31),
}

var scripts = map[string]script{
	"one queue":         {batches: oneQueue},
	"another queue":     {batches: []sinks.Batch{batch(queueA, 1, 2), batch(queueB, 1, 2), batch(queueB, 3, 3)}},
	"restarts":          {batches: []sinks.Batch{batch(queueA, 1, 1), batch(queueA, 2, 2), batch(queueA, 3, 4), batch(queueA, 5, 5)}, restart: true},
	"gaps":              {batches: gapped},
	"gaps and restarts": {batches: gapped, restart: true},
	"gzip":              {batches: oneQueue, config: func(c *Config, _ int) { c.Compress, c.Rotate.MaxBytes = Gzip, 250 }},
	"other forms": {batches: oneQueue, restart: true, config: func(c *Config, i int) {
		c.Compress, c.Rotate.MaxBytes = []Compression{Zstd, Gzip, None}[i%3], 1000
	}},
	"retention": {batches: oneQueue, config: func(c *Config, _ int) { c.Retain.MaxFiles, c.Rotate.MaxBytes = 1, 80 }},
}

// TestCrash ends the story before every single change, with a process that is
// killed and with power cuts, and wants each record exactly once after a
// redelivery, and a manifest that accounts for everything. The bubble's clock
// stands still, which makes equal states equal.
func TestCrash(t *testing.T) {
	seen := map[string]bool{}
	for name, script := range scripts {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRecorder(t, script)
				r.deliver()
				maps.Copy(seen, r.seen)
				t.Logf("%d changes, %d states", r.changes, len(r.checked))
			})
		})
	}
	for _, change := range []string{"write", "sync", "create", "rename", "syncdir", "mkdir", "remove"} {
		if !seen[change] {
			t.Errorf("no script made a change %q: they no longer test what they are to test", change)
		}
	}
}

// TestFailureAtEveryChange lets one change after the other fail, and with each of
// them ends the story before every later change. The scripts that it leaves out
// have nothing but what others have.
func TestFailureAtEveryChange(t *testing.T) {
	for _, name := range []string{"another queue", "restarts", "gaps", "gzip", "other forms", "retention"} {
		script := scripts[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				checked := map[string]bool{}
				for failAt := 1; ; failAt += stride() {
					r := newRecorder(t, script)
					r.failures, r.checked = failures{from: failAt, number: 1, errno: unix.EIO}, checked
					r.deliver()
					if r.changes < failAt {
						t.Logf("%d changes, %d states", r.changes, len(checked))
						return
					}
				}
			})
		})
	}
}

// TestDiskFullAtEveryChange has the disk full from one change after the other, for
// some changes that need room, and wants the sink to go on by itself after that.
func TestDiskFullAtEveryChange(t *testing.T) {
	for name, script := range scripts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				for from := 1; ; from += stride() {
					ended := true
					for _, number := range []int{1, 2, 7} {
						r := newRecorder(t, script)
						r.failures, r.blind = failures{from: from, number: number, errno: unix.ENOSPC}, true
						r.deliver()
						r.check("at the end", r.dir, nil)
						ended = ended && r.changes < from
					}
					if ended {
						return
					}
				}
			})
		})
	}
}

// stride is from one planted failure to the next.
func stride() int {
	if testing.Short() {
		return 7
	}
	return 1
}

// failures are changes that fail.
type failures struct {
	from   int // number of the first change that may; 0: none
	number int // how many of them
	errno  unix.Errno
}

// fails says whether a change of this number fails, and counts it. A full disk
// only fails what needs room.
func (f *failures) fails(number int, change string) bool {
	if f.from == 0 || number < f.from || f.number == 0 {
		return false
	}
	if f.errno == unix.ENOSPC && !slices.Contains([]string{"create", "write", "mkdir", "rename"}, change) {
		return false
	}
	f.number--
	return true
}

// deliver does what the delivery loop does: it offers a batch until it is taken.
func (r *recorder) deliver() {
	s := r.open()
	for ; r.sent < len(r.script.batches); r.sent++ {
		if r.script.restart {
			mustClose(r.t, s)
			s = r.open()
		}
		r.try("send", func() error { return s.Send(context.Background(), r.script.batches[r.sent]) })
	}
	r.look()
	r.crash()
	mustClose(r.t, s)
}

func (r *recorder) open() (s *sink) {
	r.try("open", func() (err error) {
		s, err = open(r.config(r.dir), env(), watched(r.dir, r.before))
		return err
	})
	r.t.Cleanup(func() { mustClose(r.t, s) }) // where the test ends early
	return s
}

// try does something until it succeeds. It may fail only when a change has failed.
func (r *recorder) try(what string, do func() error) {
	r.t.Helper()
	for {
		failed := r.failed
		err := do()
		if err == nil {
			return
		}
		if r.failed == failed {
			r.t.Fatalf("%s, after change %s failed: %v", what, r.failed, err)
		}
		checkFailure(r.t, err, sinks.Transient, r.dir)
		if r.failures.errno == unix.ENOSPC {
			checkFailure(r.t, err, sinks.Transient, "no space left", "free space")
		}
	}
}
