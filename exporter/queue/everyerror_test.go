package queue

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/internal/disk/crashdisk"
)

// trouble is a way in which operations fail, from the one that is tested on.
type trouble struct {
	name    string
	fault   crashdisk.Fault
	lasting bool // until the disk is well again; else once
	writing bool // only what changes the disk
}

var troubles = []trouble{
	{name: "EIO with nothing done", fault: crashdisk.Fault{Err: unix.EIO}},
	{name: "EIO although it was done", fault: crashdisk.Fault{Err: unix.EIO, Done: 1}},
	{name: "ENOSPC after a short write", fault: crashdisk.Fault{Err: unix.ENOSPC, Done: 0.4}},
	{name: "a full disk", fault: crashdisk.Fault{Err: unix.ENOSPC, Done: 0.7}, lasting: true, writing: true},
	{name: "a read-only disk", fault: crashdisk.Fault{Err: unix.EROFS}, lasting: true, writing: true},
	{name: "a dead disk", fault: crashdisk.Fault{Err: unix.EIO}, lasting: true},
}

// plan lets the operations from the nth on fail, and notes that there is one.
func (x trouble) plan(n int, reached *atomic.Bool) func(op int, kind, name string) crashdisk.Fault {
	return func(op int, kind, _ string) crashdisk.Fault {
		if op >= n {
			reached.Store(true)
		}
		if op < n || op > n && !x.lasting || x.writing && crashdisk.IsReading(kind) {
			return crashdisk.Fault{}
		}
		return x.fault
	}
}

// Each operation of a trace fails, once or from then on. Nothing is acknowledged that
// is not safe; a kill and a power cut while it fails take nothing that was acknowledged; when
// the disk works, the queue goes on without a restart; and a power cut after that takes nothing
// that was acknowledged.
//
// CRASH_SEED and CRASH_ALL are as for TestKilledAtEveryOperation. Without CRASH_ALL
// dice leave out two of three operations, others each time: every error costs
// three processes.
func TestErrorAtEveryOperation(t *testing.T) {
	seed := seedOfDice(t)
	for name, tr := range traces {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dice := rand.New(rand.NewPCG(seed, 0))
			for n, more := 1, true; more; n += stride(dice) {
				more = false // also when it fails, or is not run because another has
				t.Run(fmt.Sprint("operation ", n), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { more = failingAt(t, tr, n, seed) })
				})
			}
		})
	}
}

// troublesOf returns those that are tried for an operation of a trace: what dice
// say or, when CRASH_ALL is set, all.
func troublesOf(dice *rand.Rand) []trouble {
	if os.Getenv("CRASH_ALL") != "" {
		return troubles
	}
	return []trouble{troubles[dice.IntN(len(troubles))]}
}

// stride is how far it is to the next operation that is tried.
func stride(dice *rand.Rand) int {
	if os.Getenv("CRASH_ALL") != "" {
		return 1
	}
	if testing.Short() {
		return 1 + dice.IntN(19)
	}
	return 1 + dice.IntN(5)
}

// failingAt lets the nth operation of a trace fail, and reports whether it has so
// many.
func failingAt(t *testing.T, tr trace, n int, seed uint64) bool {
	dice := rand.New(rand.NewPCG(seed, uint64(n)))
	var reached atomic.Bool
	for _, x := range troublesOf(dice) {
		s := begun(t, tr)
		s.fs.SetPlan(x.plan(n, &reached))
		tr.run(s)
		s.what = fmt.Sprintf("%s at operation %d, %s", x.name, n, s.fs.LastFailed())
		// While it fails: what is gone was released by what is durable.
		c := s.clone(fmt.Sprintf("%s; then a kill and a power cut keeps nothing (seed %d)", s.what, seed), dice)
		c.disk.Cut(false, func(int) bool { return false })
		c.check()
		s.heals()
		// Before anything is delivered: what was acknowledged is on the disk alone.
		c = s.clone(fmt.Sprintf("%s; then at once a power cut keeps nothing (seed %d)", s.what, seed), dice)
		c.disk.Cut(false, func(int) bool { return false })
		c.check()
		s.goesOn()
		c = s.clone(fmt.Sprintf("%s; then a power cut keeps nothing (seed %d)", s.what, seed), dice)
		c.disk.Cut(false, func(int) bool { return false })
		c.check()
	}
	return reached.Load()
}

// heals lets the disk work again: everything is acknowledged without a restart, unless
// the trace has ended with its process.
func (s *session) heals() {
	s.fs.SetPlan(nil)
	if s.q == nil {
		s.restart()
	}
	time.Sleep(10 * time.Second)
	s.settle()
	s.allTold()
	s.fs.Forgive()
}

// goesOn has the queue show that it works, over a restart. The process is dead at the
// end.
func (s *session) goesOn() {
	s.deliver("a", 1)
	s.send(1)
	s.tidy()
	s.allTold()
	s.deliver("a", 0)
	s.deliver("b", 1)
	s.stop() // fails when the janitor still has trouble
	s.restart()
	s.kill()
}
