package queue

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk/crashdisk"
)

// TestCrashes runs a queue on a disk that fails by dice, ends its process in the middle of
// anything, several times, and compares what the next one finds with what was acknowledged.
// CRASH_SEED repeats one run, with GOMAXPROCS=1 nearly always in the same order.
func TestCrashes(t *testing.T) { runSeeds(t, "CRASH_SEED", 120, runCrashes) }

func runCrashes(t *testing.T, seed uint64) {
	dice := rand.New(rand.NewPCG(seed, 1))
	opts := Options{SegmentBytes: segment.HeaderSize + crashdisk.PageBytes<<dice.IntN(4)}
	if dice.IntN(3) == 0 {
		opts.MaxBytes = int64(5+dice.IntN(4)) * opts.SegmentBytes
	}
	s := newSession(t, crashdisk.New(rand.New(rand.NewPCG(seed, 2))), opts)
	asked := &atomic.Pointer[Queue]{}
	s.opts.Log = slog.New(askingLog{slog.DiscardHandler, asked})
	s.dice, s.what = dice, fmt.Sprint("seed ", seed)
	begin(s)
	for range 3 + dice.IntN(8) {
		asked.Store(s.q)
		s.fs.SetPlan(planOf(dice, 1<<(3+dice.IntN(6)), true))
		s.work()
		s.kill()
		if dice.IntN(2) == 0 {
			s.disk.PowerCut()
		}
		s.fs.Forgive()
		s.fs.SetPlan(planOf(dice, 1<<(3+dice.IntN(6)), false)) // a header that cannot be read costs the ids
		s.start()
	}
	s.kill()
	s.fs.Forgive()
	s.restart()
	s.settle()
	s.allTold()
	s.deliver("a", 0)
	s.deliver("b", 0)
	s.tidy()
	if n := len(*s.q.segments.Load()); n > 1 {
		s.fatalf("segments kept at the end: got %d, want 1", n)
	}
	s.stop()
}

// planOf kills a process at one of so many operations, or never, and makes a share of the others
// fail, of reads only if told so.
func planOf(dice *rand.Rand, operations int, reading bool) func(n int, op, name string) crashdisk.Fault {
	dice = rand.New(rand.NewPCG(dice.Uint64(), 1)) // for several goroutines, under the lock of Steps
	last, share := dice.IntN(4*operations), dice.Float64()*dice.Float64()
	reads := share * float64(dice.IntN(2)) / 4
	if !reading {
		reads = 0
	}
	if dice.IntN(2) == 0 {
		share, reads = 0, 0
	}
	return func(n int, op, _ string) crashdisk.Fault {
		done := float64(dice.IntN(3)) / 2
		switch {
		case n >= last && last < operations:
			return crashdisk.Fault{Err: crashdisk.ErrKilled, Done: done}
		case crashdisk.IsReading(op) && dice.Float64() < reads, !crashdisk.IsReading(op) && dice.Float64() < share:
			return crashdisk.Fault{Err: []error{unix.EIO, unix.ENOSPC}[dice.IntN(2)], Done: done}
		}
		return crashdisk.Fault{}
	}
}

// work does random things.
func (s *session) work() {
	for range s.dice.IntN(60) {
		switch s.dice.IntN(12) {
		case 0, 1, 2, 3:
			s.send(1 + s.dice.IntN(4))
		case 4, 5:
			burst := func() { s.send(1); s.note(); s.send(2) }
			if s.opts.MaxBytes > 0 { // a full queue may need the commits that are held
				burst()
			} else {
				s.together(burst)
			}
		case 6, 7, 8:
			s.settle()
			s.deliver([]string{"a", "b"}[s.dice.IntN(2)], uint64(s.dice.IntN(4)))
		case 9:
			time.Sleep(time.Duration(s.dice.IntN(400)) * time.Millisecond)
		case 10:
			s.settle()
		case 11:
			s.note()
		}
	}
}

// fewer is how many of n things a test does with -short.
func fewer(n int) int {
	if testing.Short() {
		return (n + 9) / 10
	}
	return n
}

// runSeeds calls run with as many seeds that differ every time, or with the one in
// the environment variable.
func runSeeds(t *testing.T, variable string, runs uint64, run func(t *testing.T, seed uint64)) {
	seed := rand.Uint64()
	if testing.Short() {
		seed = 1 // the gate decides nothing by chance
	}
	if s := os.Getenv(variable); s != "" {
		var err error
		seed, err = strconv.ParseUint(s, 10, 64)
		must(t, err)
		runs = 1
	}
	for n := range uint64(fewer(int(runs))) {
		t.Run(fmt.Sprint("seed ", seed+n), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { run(t, seed+n) })
		})
	}
}

// sent is one chunk that was given to Append.
type sent struct {
	records    []string
	refused    uint64
	lost       uint64 // may be more than 32 bits hold
	duplicates uint64 // a random number, which tells chunks apart
}

func (c sent) same(o sent) bool { return c.duplicates == o.duplicates }

// askingLog asks the queue for its state with each line: a queue that logs with its lock held
// hangs.
type askingLog struct {
	slog.Handler
	q *atomic.Pointer[Queue]
}

// Enabled implements slog.Handler.
func (l askingLog) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (l askingLog) Handle(ctx context.Context, r slog.Record) error {
	if q := l.q.Load(); q != nil {
		q.Stats()
	}
	return l.Handler.Handle(ctx, r)
}

func tally(chunks []sent) state.SourceTally {
	t := state.SourceTally{Refused: map[string]uint64{}, Lost: map[string]uint64{}}
	for _, c := range chunks {
		t.Stored += uint64(len(c.records))
		t.Duplicate += c.duplicates
		if c.refused > 0 {
			t.Refused["bad"] += c.refused
		}
		if c.lost > 0 {
			t.Lost["deny"] += c.lost
		}
	}
	return t
}

func equalTally(a, b state.SourceTally) bool {
	return a.Stored == b.Stored && a.Duplicate == b.Duplicate && maps.Equal(a.Refused, b.Refused) && maps.Equal(a.Lost, b.Lost)
}
