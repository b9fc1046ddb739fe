package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/disk/crashdisk"
)

// session is a queue over the lives of several processes on one disk, with a model
// of what it was told and what it has said. Each step does nothing once the process
// is dead. It runs in a bubble of synctest.
type session struct {
	t    *testing.T
	what string          // happens to it, for messages
	disk *crashdisk.Disk // nil: the operating system's
	fs   *testFS
	opts Options
	dice *rand.Rand // nil: frames take whole blocks

	q       *Queue
	ctx     context.Context
	cancel  context.CancelFunc
	cursors map[string]*Cursor
	life    int

	mu     sync.Mutex
	chunks []sent            // chunk n has position n+1
	given  [][]sent          // what chunks was in earlier lives
	told   int               // so many are acknowledged, or a later process has told their position
	acked  map[string]uint64 // by sink: the last seq it acked
	ids    givenIDs
}

func newSession(t *testing.T, disk *crashdisk.Disk, opts Options) *session {
	s := &session{t: t, disk: disk, opts: opts, fs: newTestFS(), acked: map[string]uint64{}, ids: givenIDs{}}
	if disk != nil {
		s.opts.Directory = "/q"
	}
	s.opts.FS = s.fs
	t.Cleanup(s.kill) // a bubble ends with its goroutines
	return s
}

// clone returns a copy of a session whose process is dead.
func (s *session) clone(what string, dice *rand.Rand) *session {
	c := newSession(s.t, s.disk.Clone(dice, isReserve), s.opts)
	c.fs.spareReserve = true
	c.what, c.life, c.told = what, s.life, s.told
	c.chunks, c.given = slices.Clone(s.chunks), slices.Clone(s.given)
	c.acked, c.ids = maps.Clone(s.acked), maps.Clone(s.ids)
	return c
}

func (s *session) fatalf(format string, args ...any) {
	s.t.Helper()
	s.kill()
	s.t.Fatalf("%s: life %d: %s", s.what, s.life, fmt.Sprintf(format, args...))
}

func (s *session) isDead() bool { return s.q == nil || s.fs.IsDead() }

// start begins a process: it opens the queue, asks what is stored and takes the
// cursors of both sinks.
func (s *session) start() {
	if s.fs.HasEnded() {
		return
	}
	s.life++
	s.ctx, s.cancel = context.WithCancel(context.Background())
	fsys := disk.OS("")
	if s.disk != nil {
		s.disk.Boot()
		fsys = s.disk.Process()
	}
	s.fs.Boot(fsys, s.cancel)
	q, err := Open(s.opts)
	if err != nil && s.healed() {
		if n := s.fs.OpenFiles(); n != 0 {
			s.fatalf("%d files are open after Open has failed with: %v", n, err)
		}
		q, err = Open(s.opts)
	}
	if err != nil {
		if !s.fs.IsDead() {
			s.fatalf("open: %v", err)
		}
		return
	}
	s.q = q
	s.learn()
	s.openCursors()
}

// healed ends what makes operations fail and reports whether one did.
func (s *session) healed() bool {
	if s.fs.IsDead() {
		return false
	}
	s.fs.SetPlan(nil)
	return s.fs.LastFailed() != ""
}

// restart begins another process after one that is dead, on a disk that works.
func (s *session) restart() {
	s.fs.SetPlan(nil)
	s.start()
}

// learn finds out what is stored. It is never less than what was told, and never
// anything that was not sent in this order.
func (s *session) learn() {
	n, ok := s.position()
	if !ok {
		return
	}
	if n < s.told {
		s.fatalf("position: got %d, want at least %d: acknowledged chunks are lost", n, s.told)
	}
	s.mu.Lock()
	s.given = append(s.given, slices.Clone(s.chunks))
	got := s.q.Stats()
	chunks := s.whatIsStored(n, got.Sources["s"])
	before := len(s.chunks)
	s.chunks = slices.Clip(chunks)
	s.told = len(chunks)
	s.mu.Unlock()
	if len(chunks) != n {
		s.fatalf("position %d of %d, with %+v: nothing that was sent adds up to this", n, before, got.Sources["s"])
	}
	s.checkBooks()
}

func (s *session) position() (int, bool) {
	for {
		if s.isDead() {
			return 0, false
		}
		ctx, cancel := context.WithTimeout(s.ctx, time.Minute)
		n, _, err := highest(ctx, s.q, Producer{Source: "s", Identity: "uid:1", Name: "p"})
		cancel()
		switch {
		case err == nil:
			return int(n), true
		case s.isDead():
			return 0, false
		case !s.healed():
			s.fatalf("no position on a good disk: %v", err)
		}
	}
}

// whatIsStored returns the first n chunks as they were sent last or, when those do
// not add up to what the queue counts, as they were sent in an earlier life; nil when
// nothing does. What was told is the same in all of them. Callers hold mu.
func (s *session) whatIsStored(n int, got state.SourceTally) []sent {
	for _, chunks := range slices.Backward(s.given) {
		if len(chunks) < n || len(chunks) < s.told || !slices.EqualFunc(chunks[:s.told], s.chunks[:s.told], sent.same) {
			continue
		}
		if n == 0 || equalTally(got, tally(chunks[:n])) {
			return chunks[:n]
		}
	}
	return nil
}

func (s *session) openCursors() {
	s.cursors = map[string]*Cursor{}
	for _, name := range []string{"a", "b"} {
		if s.isDead() {
			return
		}
		c, err := s.q.Cursor(name, false)
		if err != nil {
			s.fatalf("cursor: %v", err)
		}
		s.cursors[name] = c
	}
	s.checkBooks()
}

// checkBooks compares what the queue says with what it was told, when nothing is
// under way.
func (s *session) checkBooks() {
	s.t.Helper()
	if s.isDead() {
		return
	}
	got := s.q.Stats()
	s.mu.Lock()
	want := tally(s.chunks[:s.told])
	s.mu.Unlock()
	if s.fs.IsDead() {
		return // meanwhile
	}
	if got.LastSeq != want.Stored {
		s.fatalf("last seq: got %d, want %d", got.LastSeq, want.Stored)
	}
	if got.Corrupt != 0 {
		s.fatalf("corrupt: got %d, want 0: nothing was damaged", got.Corrupt)
	}
	for name, a := range got.Cursors {
		if a.Next-1 != a.Delivered+a.Filtered+a.DeadLettered+a.Dropped+a.Corrupt {
			s.fatalf("account of %s does not balance: %+v", name, a)
		}
		if a.Filtered+a.DeadLettered+a.Corrupt != 0 || a.Dropped > 0 && s.opts.WhenFull != DropOldest {
			s.fatalf("account of %s: %+v, though only deliveries were asked for", name, a)
		}
		if a.Delivered > s.acked[name] || a.Next > want.Stored+1 || a.Dropped == 0 && a.Next > s.acked[name]+1 {
			s.fatalf("account of %s is beyond what it acked, which is %d: %+v", name, s.acked[name], a)
		}
	}
}

// send appends a chunk of n records and of whole blocks: frames that an earlier use
// of a file left behind begin where the next one is looked for.
func (s *session) send(n int) { s.append(n, "") }

// note appends a chunk that only counts.
func (s *session) note() { s.append(0, "bad") }

func (s *session) append(n int, refused string) {
	if s.isDead() {
		return
	}
	s.mu.Lock()
	number := len(s.chunks)
	x := &Chunk{Source: "s", Identity: "uid:1", Producer: "p", Position: uint64(number + 1), Received: time.Now(), Count: n}
	c := sent{duplicates: uint64(1 + 1000*number + s.life)}
	if refused != "" {
		x.Refused = []Tally{{Name: refused, Count: 1}}
		c.refused = 1
	}
	x.Duplicates = int(c.duplicates)
	for i := range n {
		c.records = append(c.records, fmt.Sprintf("%d/%d/%d", s.life, number+1, i))
	}
	if n > 0 {
		c.lost = 5e9 + c.duplicates
		x.Lost = []Tally{{Name: "deny", Count: c.lost}}
		size := x.FrameSize() + len(strings.Join(c.records, "\n")) + 1
		pad := int(alignBlock(int64(size))) - size
		if s.dice != nil {
			pad = s.dice.IntN(2 * crashdisk.PageBytes)
		}
		c.records[0] += strings.Repeat("x", pad)
		x.Records = []byte(strings.Join(c.records, "\n") + "\n")
	}
	s.chunks = append(s.chunks, c)
	s.mu.Unlock()

	ctx, cancel := context.WithTimeout(s.ctx, 20*time.Second)
	defer cancel()
	put := func(ctx context.Context, c *Chunk, settled func()) error { return appendOrFull(ctx, s.q, c, settled) }
	if number%3 == 2 && !s.fs.holds() && s.q.opts.MaxBytes == 0 { // who appends now would wait with the disk, or for a sink
		put = s.q.AppendNow
	}
	err := put(ctx, x, func() { s.settled(number) })
	if err == nil {
		return
	}
	s.mu.Lock()
	s.chunks = s.chunks[:number]
	s.mu.Unlock()
	if !errors.Is(err, errFull) && !s.isDead() && s.fs.LastFailed() == "" {
		s.fatalf("append: %v", err)
	}
}

func (s *session) settled(number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.told != number {
		s.t.Errorf("%s: acknowledged chunk %d after %d", s.what, number, s.told)
	}
	s.told = number + 1
}

// together makes one commit of what sends appends, after one of its own.
func (s *session) together(sends func()) {
	if s.isDead() {
		return
	}
	release := s.fs.hold()
	s.send(1)
	synctest.Wait()
	sends()
	release()
	s.settle()
}

// settle waits until nothing happens by itself at this moment.
func (s *session) settle() {
	if s.isDead() {
		return
	}
	synctest.Wait()
	s.checkBooks()
}

// tidy gives the janitor time for several rounds.
func (s *session) tidy() {
	if s.isDead() {
		return
	}
	time.Sleep(3 * time.Second)
	s.settle()
}

// deliver reads all that is durable and acks all but the last few.
func (s *session) deliver(name string, but uint64) {
	if s.isDead() {
		return
	}
	c := s.cursors[name]
	s.mu.Lock()
	var all []string
	for _, chunk := range s.chunks[:s.told] {
		all = append(all, chunk.records...)
	}
	s.mu.Unlock()
	for !s.isDead() && c.next <= uint64(len(all)) {
		from := c.next
		ctx, cancel := context.WithTimeout(s.ctx, 5*time.Second)
		batch, err := c.Next(ctx, Limits{Records: 3, Bytes: 1 << 20})
		cancel()
		if err != nil {
			if !s.isDead() && s.fs.LastFailed() == "" {
				s.fatalf("sink %s: next: %v", name, err)
			}
			break // later
		}
		if got := batch[0].Seq; got != from && (got < from || s.opts.WhenFull != DropOldest) {
			s.fatalf("sink %s: got seq %d, want %d", name, got, from)
		}
		for i, r := range batch {
			if want := batch[0].Seq + uint64(i); r.Seq != want || r.Seq > uint64(len(all)) {
				s.fatalf("sink %s: got seq %d of %d, want %d", name, r.Seq, len(all), want)
			}
			if want := all[r.Seq-1]; string(r.Data) != want {
				s.fatalf("sink %s: record %d: got %.20q, want %.20q", name, r.Seq, r.Data, want)
			}
			if err := s.ids.give(&r); err != nil {
				s.fatalf("sink %s: %v", name, err)
			}
		}
	}
	if last := c.next - 1; last > but && !s.isDead() {
		s.acked[name] = max(s.acked[name], last-but)
		if err := c.Ack(last - but); err != nil {
			s.fatalf("ack: %v", err)
		}
	}
	s.checkBooks()
}

// stop ends the process in order.
func (s *session) stop() {
	if s.isDead() {
		return
	}
	for _, c := range s.cursors {
		c.Close()
	}
	err := s.q.Close(context.Background())
	if err != nil && !s.isDead() && s.fs.LastFailed() == "" {
		s.fatalf("close: %v", err)
	}
	s.q = nil
	s.checkClosed()
}

// kill ends the process as SIGKILL does.
func (s *session) kill() {
	s.fs.Kill()
	if s.q == nil {
		return
	}
	s.cancel()
	for _, c := range s.cursors {
		c.Close()
	}
	_ = s.q.Close(context.Background()) // it is dead
	s.q = nil
	s.checkClosed()
}

func (s *session) checkClosed() {
	if s.disk != nil {
		again := s.disk.Breaches()
		again = slices.DeleteFunc(again, func(name string) bool { return !isSegment(name) }) // a slot of cursors is written anew each time
		if len(again) > 0 {
			s.t.Errorf("%s: synced again after a failed sync: %v", s.what, again)
		}
	}
	if n := s.fs.OpenFiles(); n != 0 {
		s.t.Errorf("%s: %d files are open after the end of a process", s.what, n)
	}
}

// check lets two more processes work on what a dead one has left behind: the first
// finds all that was told, and the second, after a power cut that takes all that
// was not synced, all that the first has told. One commit alone is between them, so
// that it covers no more than one block of what it is written over.
func (s *session) check() {
	s.restart()
	s.deliver("a", 1)
	s.send(1)
	s.settle()
	s.allTold()
	s.kill()
	if s.disk != nil {
		s.disk.Cut(false, func(int) bool { return false })
	}
	s.restart()
	s.note()
	s.send(2)
	s.settle()
	s.deliver("a", 0)
	s.deliver("b", 0)
	s.tidy()
	s.send(1)
	s.settle()
	s.allTold()
	s.deliver("b", 0)
	s.stop()
}

// allTold fails unless everything that was sent is acknowledged, and nothing is
// wrong any more.
func (s *session) allTold() {
	if s.isDead() {
		s.fatalf("the process is dead")
	}
	s.mu.Lock()
	told, all := s.told, len(s.chunks)
	s.mu.Unlock()
	if told != all {
		s.fatalf("acknowledged on a good disk: %d of %d; %v", told, all, s.q.Stats().Err)
	}
	if err := s.q.Stats().Err; err != nil {
		s.fatalf("health on a good disk: %v", err)
	}
}
