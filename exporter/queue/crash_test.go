package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk/crashdisk"
	"github.com/docket-export/docket/internal/testlog"
)

// TestCrashes runs a queue on a disk that fails and forgets, ends its process in
// the middle of anything, and compares what the next one finds with what was
// acknowledged. CRASH_SEED repeats one run, with GOMAXPROCS=1 nearly always in the
// same order.
func TestCrashes(t *testing.T) { runSeeds(t, "CRASH_SEED", 120, runCrashes) }

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

func (l askingLog) Handle(ctx context.Context, r slog.Record) error {
	if q := l.q.Load(); q != nil {
		q.Stats()
	}
	return l.Handler.Handle(ctx, r)
}

type crashModel struct {
	t    *testing.T
	dice *rand.Rand
	disk *crashdisk.Disk
	opts Options
	log  *testlog.Buffer

	q       *Queue
	asked   atomic.Pointer[Queue]
	ctx     context.Context
	cursors map[string]*Cursor
	last    map[string][]Record

	mu      sync.Mutex
	chunks  []sent            // chunk n has position n+1
	given   [][]sent          // what chunks was at earlier times
	acked   int               // so many of them are acknowledged
	reached map[string]uint64 // by sink: the last seq it got
	acks    map[string]uint64 // by sink: the last seq it acked
	runs    int
	noise   int
	ids     givenIDs
}

func runCrashes(t *testing.T, seed uint64) {
	dice := rand.New(rand.NewPCG(seed, 1))
	m := &crashModel{
		t: t, dice: dice, disk: crashdisk.New(rand.New(rand.NewPCG(seed, 2))), log: &testlog.Buffer{},
		reached: map[string]uint64{}, acks: map[string]uint64{}, ids: givenIDs{},
	}
	m.opts = Options{Directory: "/q", SegmentBytes: 1 << (12 + dice.IntN(4))}
	if dice.IntN(3) == 0 {
		m.opts.MaxBytes = 4 * m.opts.SegmentBytes
	}
	m.opts.Log = slog.New(askingLog{slog.NewTextHandler(m.log, nil), &m.asked})
	defer func() {
		if t.Failed() {
			t.Log(m.log.String())
		}
	}()
	// Both sinks are known durably from the start: one that comes later misses
	// what is gone.
	m.start(-1)
	m.openCursors()
	m.stop()
	for range 3 + dice.IntN(8) {
		m.life()
	}
	m.finish()
}

func (m *crashModel) fatalf(format string, args ...any) {
	m.t.Helper()
	m.disk.Kill()
	if m.q != nil {
		m.q.Close(context.Background())
	}
	m.t.Fatalf(format, args...)
}

// start opens the queue for a process that is killed after some operations. It
// returns false when that happens during Open.
func (m *crashModel) start(operations int) bool {
	var cancel context.CancelFunc
	m.ctx, cancel = context.WithCancel(context.Background())
	m.disk.Boot(operations, cancel)
	if m.runs > 0 && m.dice.IntN(3) == 0 {
		m.disk.SetFaults(m.dice.Float64()*m.dice.Float64(), 0)
	}
	m.runs++
	fmt.Fprintln(m.log, "start", m.runs, "ops", operations)
	m.opts.FS = m.disk.Process()
	q, err := Open(m.opts)
	m.cursors, m.last = map[string]*Cursor{}, map[string][]Record{}
	m.q = q
	m.asked.Store(q)
	if err != nil {
		if m.ctx.Err() == nil {
			m.fatalf("open: %v", err)
		}
		return false
	}
	return true
}

func (m *crashModel) stop() {
	m.q.Close(context.Background())
	m.disk.Kill()
	m.q = nil
}

// life is one process.
func (m *crashModel) life() {
	operations := -1
	if m.dice.IntN(4) > 0 {
		operations = 1 + m.dice.IntN(1<<(3+m.dice.IntN(6)))
	}
	if m.start(operations) {
		if m.learn() {
			m.openCursors()
			m.work()
		}
		if m.dice.IntN(4) > 0 {
			m.disk.Kill()
		}
		m.stop()
	}
	if m.dice.IntN(2) == 0 {
		m.disk.PowerCut()
		fmt.Fprintln(m.log, "power cut leaves", m.disk.Names())
	}
}

// learn finds out what became of the chunks that were not acknowledged. What is
// found is durable from then on.
func (m *crashModel) learn() bool {
	ctx, cancel := context.WithTimeout(m.ctx, time.Minute)
	defer cancel()
	n, _, err := highest(ctx, m.q, Producer{Source: "s", Identity: "uid:1", Name: "p"})
	if err != nil {
		return false
	}
	fmt.Fprintln(m.log, "learned", n, "acked", m.acked, "of", len(m.chunks))
	if int(n) < m.acked {
		m.fatalf("position: got %d, want at least %d", n, m.acked)
	}
	m.chunks, m.acked = m.whatIsStored(int(n)), int(n)
	m.checkStats()
	return true
}

// whatIsStored returns the first n chunks as they were sent last or, when those do
// not add up to what the queue counts, as they were sent before: what the queue has
// given up can come back with a name that a power cut restores, as long as nothing
// was acknowledged in its place.
func (m *crashModel) whatIsStored(n int) []sent {
	m.given = append(m.given, slices.Clone(m.chunks))
	got := m.q.Stats().Sources["s"]
	for _, chunks := range slices.Backward(m.given) {
		if len(chunks) < n || !slices.EqualFunc(chunks[:m.acked], m.chunks[:m.acked], sent.same) {
			continue
		}
		if want := tally(chunks[:n]); n == 0 || equalTally(got, want) {
			return chunks[:n:n]
		}
	}
	m.fatalf("%d chunks: got %+v, which nothing that was sent adds up to; acked %d of %d, %+v", n, got, m.acked, len(m.chunks), tally(m.chunks))
	return nil
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

func (m *crashModel) records() (all []string) {
	for _, c := range m.chunks {
		all = append(all, c.records...)
	}
	return all
}

// checkStats compares the accounts with what is stored for certain: nothing may
// be under way.
func (m *crashModel) checkStats() {
	m.t.Helper()
	s := m.q.Stats()
	got, want := s.Sources["s"], tally(m.chunks)
	if len(m.chunks) > 0 && !equalTally(got, want) {
		m.fatalf("tallies: got %+v, want %+v", got, want)
	}
	if s.LastSeq != want.Stored {
		m.fatalf("last seq: got %d, want %d", s.LastSeq, want.Stored)
	}
	m.checkAccounts()
}

func (m *crashModel) checkAccounts() {
	m.t.Helper()
	s := m.q.Stats()
	if s.Corrupt != 0 {
		m.fatalf("corrupt: got %d, want 0", s.Corrupt)
	}
	for name, a := range s.Cursors {
		if a.Corrupt != 0 || a.Next-1 != a.Delivered+a.Filtered {
			m.fatalf("account of %s does not balance: %+v", name, a)
		}
		if (name == "a" || name == "b") && (a.Filtered != 0 || a.Next > m.acks[name]+1) {
			m.fatalf("account of %s: got %+v, acked %d", name, a, m.acks[name])
		}
	}
}

func (m *crashModel) openCursors() {
	for _, name := range []string{"a", "b"} {
		c, err := m.q.Cursor(name, false)
		if err != nil {
			m.fatalf("cursor: %v", err)
		}
		m.cursors[name] = c
	}
}

func (m *crashModel) work() {
	if m.dice.IntN(2) == 0 {
		p := m.dice.Float64() * m.dice.Float64()
		m.disk.SetFaults(p, []float64{0, p / 4}[m.dice.IntN(2)])
	} else {
		m.disk.SetFaults(0, 0)
	}
	if m.dice.IntN(4) == 0 {
		m.newcomer()
	}
	for range m.dice.IntN(60) {
		if m.ctx.Err() != nil {
			return
		}
		switch m.dice.IntN(12) {
		case 0, 1, 2, 3:
			m.append()
		case 4, 5:
			for range m.dice.IntN(6) {
				m.append()
			}
			synctest.Wait()
		case 6, 7, 8:
			m.read([]string{"a", "b"}[m.dice.IntN(2)], 10*time.Millisecond)
		case 9:
			time.Sleep(time.Duration(m.dice.IntN(400)) * time.Millisecond)
		case 10:
			synctest.Wait()
		case 11:
			m.disk.SetFaults(0, 0)
		}
		m.checkAccounts()
	}
}

// newcomer is a sink that is new: it may start anywhere but misses nothing from
// there on.
func (m *crashModel) newcomer() {
	name := fmt.Sprint("new", m.runs)
	c, err := m.q.Cursor(name, false)
	if err != nil {
		m.fatalf("cursor: %v", err)
	}
	m.cursors[name] = c
	m.reached[name] = c.Account().Next - 1
	m.acks[name] = m.reached[name]
	for range m.dice.IntN(5) {
		m.read(name, 10*time.Millisecond)
	}
	m.checkAccounts()
	c.Close()
	delete(m.cursors, name)
	m.q.Forget(name)
}

func (m *crashModel) append() {
	c := sent{}
	m.noise++
	for range m.dice.IntN(5) {
		n := m.dice.IntN(200)
		if m.dice.IntN(20) == 0 {
			n = m.dice.IntN(6000)
		}
		c.records = append(c.records, fmt.Sprintf("%d/%d/%0*d", m.noise, m.runs, n, 0))
	}
	c.refused, c.duplicates = uint64(m.dice.IntN(3)), uint64(m.dice.IntN(1<<30))
	x := chunk(c.records...)
	x.Source, x.Identity, x.Producer, x.Position = "s", "uid:1", "p", uint64(len(m.chunks)+1)
	x.Received = time.Now()
	x.Duplicates = int(c.duplicates)
	if c.refused > 0 {
		x.Refused = []Tally{{Name: "bad", Count: c.refused}}
	}
	if len(c.records) > 0 && m.dice.IntN(2) == 0 {
		c.lost = 1 + m.dice.Uint64N(1<<36)
		x.Lost = []Tally{{Name: "deny", Count: c.lost}}
	}
	m.mu.Lock()
	number := len(m.chunks)
	m.chunks = append(m.chunks, c)
	m.mu.Unlock()
	put := func(ctx context.Context, c *Chunk, settled func()) error { return appendOrFull(ctx, m.q, c, settled) }
	if m.opts.MaxBytes == 0 && m.dice.IntN(3) == 0 { // otherwise it would wait for a sink
		put = m.q.AppendNow
	}
	err := put(m.ctx, x, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.acked != number {
			m.t.Errorf("acknowledged: chunk %d after %d", number, m.acked)
		}
		m.acked = number + 1
	})
	if err == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.chunks = m.chunks[:number]
	if !errors.Is(err, errFull) && m.ctx.Err() == nil {
		m.t.Errorf("append: %v", err)
	}
}
