package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/internal/disk/crashdisk"
)

// TestModel does random things to a queue and to a slice, and compares. MODEL_SEED
// repeats one run.
func TestModel(t *testing.T) { runSeeds(t, "MODEL_SEED", 20, runModel) }

type model struct {
	t     *testing.T
	dice  *rand.Rand
	disk  *crashdisk.Disk
	opts  Options
	q     *Queue
	asked atomic.Pointer[Queue]
	all   []string // what is acknowledged: record n is all[n-1]
	lines uint64   // the position of the last chunk
	// peers are producers of one name, of several sources and identities.
	peers []modelPeer
	lost  map[uint64]bool // what damage has taken
	sinks map[string]*modelSink
	ids   givenIDs
}

type modelPeer struct {
	Producer
	sent map[uint64]bool // the numbers of its lines
}

type modelSink struct {
	cursor *Cursor // nil while nobody reads
	next   uint64  // what the cursor returns next
	acked  uint64
	// base is the account as this process has found it.
	base Account
}

func runModel(t *testing.T, seed uint64) {
	dice := rand.New(rand.NewPCG(seed, 1))
	m := &model{
		t: t, dice: dice, disk: crashdisk.New(rand.New(rand.NewPCG(seed, 2))),
		lost: map[uint64]bool{}, sinks: map[string]*modelSink{}, ids: givenIDs{},
	}
	for _, p := range []Producer{{Source: "s", Identity: "uid:1", Name: "p"}, {Source: "s", Identity: "uid:2", Name: "p"}, {Source: "t", Identity: "uid:1", Name: "p"}} {
		m.peers = append(m.peers, modelPeer{p, map[uint64]bool{}})
	}
	m.opts = Options{Directory: "/q", SegmentBytes: segment.HeaderSize + crashdisk.PageBytes<<dice.IntN(4)}
	m.opts.WhenFull = []WhenFull{Block, DropOldest}[dice.IntN(2)]
	m.opts.Log = slog.New(askingLog{slog.DiscardHandler, &m.asked})
	m.opts = m.bounds()
	m.start()
	// Both from the start: a sink that comes later misses what is gone.
	m.sink("a")
	m.sink("b")
	time.Sleep(time.Second) // and durably so
	for range 80 {
		m.step()
		m.checkBooks()
	}
	m.restart()
	for name := range m.sinks {
		for m.read(name, 100) {
		}
	}
	m.stop()
}

// bounds returns the options with other bounds. A queue that drops has always done so.
func (m *model) bounds() Options {
	o := m.opts
	o.MaxBytes, o.Retain = 0, Retain{}
	if o.WhenFull == DropOldest || m.dice.IntN(2) == 0 {
		o.MaxBytes = int64(5+m.dice.IntN(6)) * o.SegmentBytes
	}
	switch m.dice.IntN(4) {
	case 0:
		o.Retain.MaxBytes = int64(m.dice.IntN(5)) * o.SegmentBytes
	case 1:
		o.Retain.MaxAge = time.Duration(1+m.dice.IntN(20)) * time.Second
	}
	return o
}

// reconfigure changes the bounds of the open queue.
func (m *model) reconfigure() {
	o := m.bounds()
	if !m.q.Reconfigure(o) {
		o.MaxBytes = m.opts.MaxBytes
	}
	m.opts = o
}

func (m *model) fatalf(format string, args ...any) {
	m.t.Helper()
	m.stop()
	m.t.Fatalf(format, args...)
}

func (m *model) step() {
	name := []string{"a", "b", "late"}[m.dice.IntN(3)]
	switch m.dice.IntN(23) {
	case 0, 1, 2, 3, 4, 5, 6:
		for range 1 + m.dice.IntN(5) {
			m.append()
		}
		synctest.Wait() // one commit or several
	case 7, 8, 9, 10, 11, 12:
		m.read(name, m.dice.IntN(3))
	case 13, 14:
		time.Sleep(time.Duration(m.dice.IntN(3000)) * time.Millisecond)
	case 15:
		m.park(name)
	case 16:
		m.retire()
	case 17:
		m.restart()
	case 18:
		m.crash()
	case 19:
		m.crash(m.damage)
	case 20, 21:
		for _, p := range m.peers {
			m.say(p)
		}
		synctest.Wait()
	case 22:
		m.reconfigure()
	}
}

// say sends some lines of a peer, which may go back, or leave numbers out.
func (m *model) say(p modelPeer) {
	n, _, err := m.q.Position(m.t.Context(), p.Producer)
	if err != nil {
		m.fatalf("position of %v: %v", p.Producer, err)
	}
	from := 1 + uint64(m.dice.IntN(int(n.Highest)+5))
	if !n.Fits(from) {
		return
	}
	c := said(p.Producer, from, from+uint64(m.dice.IntN(4)))
	settled := false
	ctx, cancel := context.WithTimeout(m.t.Context(), 5*time.Second)
	defer cancel()
	if err := m.q.Append(ctx, c, func() { settled = true }); err != nil {
		m.fatalf("append of a chunk without records: %v", err)
	}
	synctest.Wait()
	if !settled {
		m.fatalf("a chunk without records is not settled")
	}
	for number := from; number <= c.Position; number++ {
		p.sent[number] = true
	}
	m.checkPeers()
}

// checkPeers compares what is known of the peers with what they have sent.
func (m *model) checkPeers() {
	m.t.Helper()
	for _, p := range m.peers {
		n, _, err := m.q.Position(m.t.Context(), p.Producer)
		if err != nil {
			m.fatalf("position of %v: %v", p.Producer, err)
		}
		known := 0
		for number := range n.Highest + 2 {
			if number > 0 && n.Has(number) {
				known++
			}
			if number > 0 && n.Has(number) != p.sent[number] {
				m.fatalf("%v, line %d: got known %t of %+v", p.Producer, number, n.Has(number), n)
			}
		}
		if known != len(p.sent) {
			m.fatalf("%v: got %d lines known of %+v, want %d", p.Producer, known, n, len(p.sent))
		}
	}
}

func (m *model) start() {
	m.disk.Boot()
	m.opts.FS = m.disk.Process()
	q, err := Open(m.opts)
	if err != nil {
		m.t.Fatalf("open: %v", err)
	}
	m.q = q
	m.asked.Store(q)
	n, _, err := highest(m.t.Context(), q, Producer{Source: "s", Name: "p"})
	if err != nil || n != m.lines {
		m.fatalf("position after open: got %d, %v, want %d", n, err, m.lines)
	}
	m.checkPeers()
	accounts := q.Stats().Cursors
	for name, s := range m.sinks {
		a, ok := accounts[name]
		if !ok && name != "late" { // which came a moment ago
			m.fatalf("sink %s is forgotten", name)
		}
		for seq := s.acked + 1; seq < a.Next; seq++ {
			if name != "late" && !m.lost[seq] && a.Dropped == 0 {
				m.fatalf("sink %s: got %+v, though it acked only %d", name, a, s.acked)
			}
		}
	}
	clear(m.sinks)
	for name, a := range accounts {
		m.sinks[name] = &modelSink{next: a.Next, acked: a.Next - 1, base: a}
	}
	m.checkBooks()
}

func (m *model) stop() {
	for _, s := range m.sinks {
		s.cursor = nil
	}
	if err := m.q.Close(context.Background()); err != nil {
		m.t.Errorf("close: %v", err)
	}
}

func (m *model) restart() {
	m.stop()
	m.start()
}

// crash ends the process and perhaps the machine. then is what happens meanwhile.
func (m *model) crash(then ...func()) {
	m.disk.Kill()
	_ = m.q.Close(context.Background()) // it is dead
	if m.dice.IntN(2) == 0 {
		m.disk.PowerCut()
	}
	for _, f := range then {
		f()
	}
	m.start()
}

// append appends a chunk that may be larger than a segment.
func (m *model) append() {
	c := &Chunk{Source: "s", Producer: "p", Position: m.lines + 1, Received: time.Now()}
	var records []string
	for range m.dice.IntN(5) {
		n := m.dice.IntN(200)
		if m.dice.IntN(10) == 0 {
			n = m.dice.IntN(3 * crashdisk.PageBytes)
		}
		records = append(records, fmt.Sprintf("%d %0*d", m.dice.Uint64(), n, 0))
	}
	if len(records) > 0 {
		c.Records, c.Count = []byte(strings.Join(records, "\n")+"\n"), len(records)
	}
	ctx, cancel := context.WithTimeout(m.t.Context(), 5*time.Second)
	defer cancel()
	put := m.q.Append
	if m.dice.IntN(2) == 0 {
		put = m.q.AppendNow
	}
	err := put(ctx, c, nil)
	switch {
	case err == nil:
		m.all = append(m.all, records...)
		m.lines++
	case m.opts.MaxBytes > 0 && m.opts.WhenFull == Block && errors.Is(err, context.DeadlineExceeded):
	default:
		m.fatalf("append of %d bytes to %+v: %v", len(c.Records), m.opts, err)
	}
}

func (m *model) sink(name string) *modelSink {
	s := m.sinks[name]
	if s == nil {
		s = &modelSink{}
		m.sinks[name] = s
	}
	if s.cursor == nil {
		c, err := m.q.Cursor(name, false)
		if err != nil {
			m.fatalf("cursor %s: %v", name, err)
		}
		a := c.Account()
		if s.next == 0 { // new to the queue
			s.base, s.acked = a, a.Next-1
			if first := m.q.Stats().FirstSeq; a.Next < first || a.Filtered != a.Next-1 {
				m.fatalf("new sink: got %+v, first kept record %d", a, first)
			}
		}
		s.cursor, s.next = c, a.Next
	}
	return s
}

// park ends a sink's cursor; its records stay.
func (m *model) park(name string) {
	if s := m.sinks[name]; s != nil && s.cursor != nil {
		s.cursor.Close()
		s.cursor = nil
	}
}

// retire forgets a sink, whose records need not be kept any more.
func (m *model) retire() {
	s := m.sinks["late"]
	if s == nil {
		return
	}
	m.park("late")
	want := m.q.LastSeq() + 1 - m.q.Stats().Cursors["late"].Next
	if got := m.q.Forget("late"); got != want {
		m.fatalf("forget: got %d pending, want %d", got, want)
	}
	delete(m.sinks, "late")
}

// read takes a batch, compares it and perhaps acks some of it. It returns false when
// there is nothing left.
func (m *model) read(name string, ack int) bool {
	s := m.sink(name)
	if s.cursor.next > m.q.LastSeq() {
		return false
	}
	ctx, cancel := context.WithTimeout(m.t.Context(), time.Second)
	defer cancel()
	batch, err := s.cursor.Next(ctx, Limits{Records: 1 + m.dice.IntN(8), Bytes: 1 + m.dice.IntN(2000)})
	if errors.Is(err, context.DeadlineExceeded) {
		m.passed(name, s, m.q.LastSeq()+1)
		return false
	}
	if err != nil {
		m.fatalf("sink %s: next: %v", name, err)
	}
	for _, r := range batch {
		m.passed(name, s, r.Seq)
		if r.Seq > uint64(len(m.all)) || m.lost[r.Seq] || string(r.Data) != m.all[r.Seq-1] {
			m.fatalf("sink %s: record %d of %d, damaged: %v: got %.40q", name, r.Seq, len(m.all), m.lost[r.Seq], r.Data)
		}
		if err := m.ids.give(&r); err != nil {
			m.fatalf("sink %s: %v", name, err)
		}
		s.next = r.Seq + 1
	}
	if ack > 0 {
		s.acked = max(s.acked, batch[min(len(batch), ack)-1].Seq)
		if ack >= len(batch) {
			s.acked = batch[len(batch)-1].Seq
		}
		if err := s.cursor.Ack(s.acked); err != nil {
			m.fatalf("sink %s: ack: %v", name, err)
		}
	}
	return true
}

// passed checks that what a sink has not got before seq was damaged or dropped.
func (m *model) passed(name string, s *modelSink, seq uint64) {
	dropped := uint64(0)
	if m.opts.WhenFull == DropOldest {
		dropped = s.cursor.Account().Next
	}
	for ; s.next < seq; s.next++ {
		if !m.lost[s.next] && s.next >= dropped {
			m.fatalf("sink %s: record %d did not come, %d did", name, s.next, seq)
		}
	}
	if s.next > seq {
		m.fatalf("sink %s: record %d came after %d", name, seq, s.next-1)
	}
}

// checkBooks compares the accounts with the model.
func (m *model) checkBooks() {
	m.t.Helper()
	synctest.Wait()
	got := m.q.Stats()
	if got.LastSeq != uint64(len(m.all)) {
		m.fatalf("last seq: got %d, want %d", got.LastSeq, len(m.all))
	}
	if got.Corrupt > uint64(len(m.lost)) {
		m.fatalf("corrupt: got %d, but only %d records are damaged", got.Corrupt, len(m.lost))
	}
	for name, a := range got.Cursors {
		if a.Next-1 != a.Delivered+a.Filtered+a.DeadLettered+a.Dropped+a.Corrupt {
			m.fatalf("account of %s does not balance: %+v", name, a)
		}
		if a.Next > got.LastSeq+1 || a.Next <= got.LastSeq && a.Next < got.FirstSeq {
			m.fatalf("account of %s: %+v, kept are %d to %d", name, a, got.FirstSeq, got.LastSeq)
		}
		s := m.sinks[name]
		var lost uint64
		for seq := s.base.Next; seq < a.Next; seq++ {
			if m.lost[seq] {
				lost++
			}
		}
		corrupt, dropped := a.Corrupt-s.base.Corrupt, a.Dropped-s.base.Dropped
		if corrupt > lost || corrupt < lost && dropped == 0 {
			m.fatalf("account of %s: %d more corrupt than %+v, want %d: %+v", name, corrupt, s.base, lost, a)
		}
		if dropped > 0 && m.opts.WhenFull != DropOldest {
			m.fatalf("account of %s: %d dropped", name, dropped)
		}
	}
}

// damage harms a frame that was durable for certain, and notes what it takes.
func (m *model) damage() {
	var names []string
	for _, name := range m.disk.Names() {
		if _, ok := segment.ParseName(filepath.Base(name)); ok {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return
	}
	file := m.disk.File(names[m.dice.IntN(len(names))])
	content := file.Content()
	frames := provenFrames(content)
	if len(frames) == 0 {
		return
	}
	at := frames[m.dice.IntN(len(frames))]
	f, err := segment.ParseHeader(content[at:])
	if err != nil {
		m.t.Fatalf("frame at %d: %v", at, err)
	}
	from, to := at, at+int64(f.Size())
	switch m.dice.IntN(3) {
	case 0: // a bit of the records
		from = at + int64(f.HeaderLen+m.dice.IntN(f.PayloadLen))
		to = from + 1
	case 1: // a bit of the header
		from = at + int64(m.dice.IntN(f.HeaderLen))
		to = from + 1
	}
	for seq := f.FirstSeq; seq < f.End(); seq++ {
		m.lost[seq] = true
	}
	for i := from; i < to; i++ {
		if to == from+1 {
			content[i] ^= 1 << m.dice.IntN(8)
		} else {
			content[i] = 0
		}
	}
	file.Persist()
}

// provenFrames returns where the frames with records stand of which a later one, of the
// same producer, says that they were durable: the position of that is not lost with them.
func provenFrames(seg []byte) (frames []int64) {
	var durable int64
	at := int64(segment.HeaderSize)
	epoch := le.Uint64(seg[16:])
	for {
		f, err := segment.ParseHeader(seg[min(at, int64(len(seg))):])
		if err != nil || f.Epoch != epoch {
			break
		}
		if f.Count > 0 && f.CheckPayload(seg[at:]) == nil {
			frames = append(frames, at)
		}
		if len(f.Identity) == 0 {
			durable = max(durable, f.Durable)
		}
		at += int64(f.Size())
	}
	return slices.DeleteFunc(frames, func(at int64) bool { return at >= durable })
}
