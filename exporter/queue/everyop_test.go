package queue

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/internal/disk/crashdisk"
)

// trace is a short piece of a queue's life, recorded by running it: whatever it does
// to the disk, it is killed at each of these operations, and each of them fails.
type trace struct {
	opts  Options
	setUp func(s *session) // before; not part of the trace
	run   func(s *session)
	whole bool // all outcomes are tried
}

// smallSegment has room for three frames of a block each.
const smallSegment = segment.HeaderSize + 3*crashdisk.PageBytes

// begin is a queue with two sinks and one record.
func begin(s *session) {
	s.start()
	s.send(1)
	s.tidy()
}

// used is a queue that has removed segments.
func used(s *session) {
	begin(s)
	for range 12 {
		s.send(1)
		s.settle()
	}
	s.tidy()
	s.deliver("a", 0)
	s.deliver("b", 0)
	s.tidy()
	for range 4 {
		s.send(1)
		s.settle()
	}
	s.tidy()
}

var traces = map[string]trace{
	"first commit": {
		setUp: func(*session) {},
		run: func(s *session) {
			s.start()
			s.together(func() { s.send(2); s.note() })
			s.tidy()
			s.stop()
		},
	},
	"segment switch": {
		setUp: used,
		run: func(s *session) {
			// Commits of several blocks begin segments, and each is torn in turn.
			s.together(func() { s.send(1); s.send(2); s.send(1) })
			s.together(func() { s.send(1); s.send(1) })
			s.tidy()
			s.together(func() { s.note(); s.send(1); s.send(1) })
		},
	},
	"removal": {
		setUp: func(s *session) {
			begin(s)
			for range 7 {
				s.send(1)
				s.settle()
			}
			s.tidy()
		},
		run: func(s *session) {
			s.deliver("a", 2)
			s.deliver("b", 0)
			s.tidy()
			for range 5 {
				s.send(1)
				s.settle()
			}
			s.deliver("a", 0)
			s.deliver("b", 1)
			s.tidy()
			s.together(func() { s.send(1); s.send(1) })
		},
	},
	"acks of two sinks": {
		setUp: func(s *session) {
			begin(s)
			for range 5 {
				s.send(2)
				s.settle()
			}
			s.tidy()
		},
		run: func(s *session) {
			s.deliver("a", 3)
			s.tidy()
			s.deliver("b", 7)
			s.tidy()
			s.deliver("a", 0)
			s.deliver("b", 3)
			s.tidy()
		},
	},
	"failed commits and takeover": {
		setUp: used,
		run: func(s *session) {
			s.fs.failNext("sync", 2)
			s.together(func() { s.note(); s.send(1); s.send(2) })
			s.tidy()
			s.fs.failNext("write", 1)
			s.send(1)
			s.tidy()
			s.fs.failNext("syncdir", 1)
			s.together(func() { s.send(1); s.note(); s.send(1) })
			s.tidy()
			s.deliver("a", 0)
			s.deliver("b", 0)
			s.tidy()
			s.send(1)
			s.settle()
		},
	},
	"oldest records dropped": {
		opts:  Options{MaxBytes: 6 * smallSegment, WhenFull: DropOldest},
		setUp: begin,
		run: func(s *session) {
			for range 8 {
				s.send(2)
				s.settle()
			}
			s.deliver("a", 0)
			for range 7 {
				s.send(2)
				s.settle()
			}
			s.tidy()
			s.deliver("b", 2)
		},
	},
	"retained segments give way": {
		opts:  Options{MaxBytes: 6 * smallSegment, Retain: Retain{MaxBytes: 3 * smallSegment}},
		setUp: begin,
		run: func(s *session) {
			for range 12 {
				s.send(2)
				s.settle()
				s.deliver("a", 0)
				s.deliver("b", 0)
				time.Sleep(time.Second)
			}
		},
	},
	"killed and opened again": {
		setUp: used,
		run: func(s *session) {
			s.together(func() { s.send(1); s.note(); s.send(1) })
			s.kill()
			s.start() // the tail is written again
			s.deliver("a", 1)
			s.send(1)
			s.settle()
			s.kill()
			s.start()
			s.tidy()
		},
	},
	"stopped and opened again": {
		setUp: used,
		run: func(s *session) {
			s.send(1)
			s.stop()
			s.start()
			s.deliver("a", 1)
			s.send(2)
			s.stop()
			s.start()
			s.deliver("a", 0)
			s.deliver("b", 0)
			s.tidy()
		},
	},
	"torn by a power cut and opened again": {
		setUp: func(s *session) {
			used(s)
			// The last block of a commit is there, the first is not.
			release := s.fs.hold()
			s.send(1)
			s.send(1)
			synctest.Wait()
			s.fs.Kill()
			release()
			s.kill()
			s.disk.Cut(true, func(page int) bool { return page != 1 })
		},
		run: func(s *session) {
			s.start()
			s.send(1)
			s.settle()
			s.deliver("a", 0)
			s.deliver("b", 0)
			s.tidy()
		},
	},
}

// outcome is what is left of a process that was killed.
type outcome struct {
	name  string
	apply func(d *crashdisk.Disk)
}

func pages(names bool, which func(page int) bool) func(*crashdisk.Disk) {
	return func(d *crashdisk.Disk) { d.Cut(names, which) }
}

var outcomes = []outcome{
	{"the machine goes on", func(*crashdisk.Disk) {}},
	{"a power cut keeps nothing", pages(false, func(int) bool { return false })},
	{"a power cut keeps everything", pages(true, func(int) bool { return true })},
	{"a power cut keeps names and no bytes", pages(true, func(int) bool { return false })},
	{"a power cut keeps bytes and no names", pages(false, func(int) bool { return true })},
	{"a power cut keeps names and all but the first page of each file", pages(true, func(p int) bool { return p > 0 })},
	{"a power cut keeps all but the first page of each file and no names", pages(false, func(p int) bool { return p > 0 })},
	{"a power cut keeps names and the first page of each file", pages(true, func(p int) bool { return p == 0 })},
	{"a power cut keeps every other page", pages(true, func(p int) bool { return p%2 == 0 })},
	{"a power cut tears by dice", (*crashdisk.Disk).PowerCut},
	{"a power cut tears by other dice", (*crashdisk.Disk).PowerCut},
}

// seedOfDice is what CRASH_SEED says or another one each time.
func seedOfDice(t *testing.T) uint64 {
	s := os.Getenv("CRASH_SEED")
	if s == "" {
		return rand.Uint64()
	}
	seed, err := strconv.ParseUint(s, 10, 64)
	must(t, err)
	return seed
}

// outcomesOf returns those that are tried for an operation of a trace: what dice say
// or, when CRASH_ALL is set, all.
func outcomesOf(tr trace, dice *rand.Rand) []outcome {
	if tr.whole || os.Getenv("CRASH_ALL") != "" {
		return outcomes
	}
	return []outcome{outcomes[dice.IntN(len(outcomes))]}
}

// A process is killed at each operation of a trace that changes the disk, and what the
// machine then keeps is one of the outcomes. Nothing that was acknowledged is lost,
// nothing comes twice, and nothing is found that was not sent.
//
// CRASH_SEED repeats what dice have said, CRASH_ALL needs none.
func TestKilledAtEveryOperation(t *testing.T) {
	seed := seedOfDice(t)
	for name, tr := range traces {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n, more := 1, true; more; n++ {
				more = false // also when it fails, or is not run because another has
				t.Run(fmt.Sprint("operation ", n), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { more = killedAt(t, tr, n, seed) })
				})
			}
		})
	}
}

// killedAt kills a trace at its nth operation, and reports whether it has so many. To
// be killed at a reading one is to be killed at the next that is not.
func killedAt(t *testing.T, tr trace, n int, seed uint64) bool {
	dice := rand.New(rand.NewPCG(seed, uint64(n)))
	s := begun(t, tr)
	done := []float64{0, 0.5, 1}[n%3] // of a write
	changes := 0
	s.fs.SetPlan(func(_ int, op, _ string) crashdisk.Fault {
		if !crashdisk.IsReading(op) {
			changes++
		}
		if changes == n && !crashdisk.IsReading(op) {
			return crashdisk.Fault{Err: crashdisk.ErrKilled, Done: done}
		}
		return crashdisk.Fault{}
	})
	tr.run(s)
	ended := s.fs.HasEnded()
	s.kill()
	for _, o := range outcomesOf(tr, dice) {
		what := fmt.Sprintf("killed at operation %d, %s; then %s (seed %d)", n, s.fs.LastFailed(), o.name, seed)
		c := s.clone(what, dice)
		o.apply(c.disk)
		c.check()
	}
	return ended
}

// begun returns a session at the beginning of a trace.
func begun(t *testing.T, tr trace) *session {
	if tr.opts.SegmentBytes == 0 {
		tr.opts.SegmentBytes = smallSegment
	}
	s := newSession(t, crashdisk.New(rand.New(rand.NewPCG(1, 1))), tr.opts)
	s.fs.spareReserve = !tr.whole
	s.what = "before the trace"
	tr.setUp(s)
	s.what = "in the trace"
	return s
}
