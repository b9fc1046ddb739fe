package queue

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestModel does random things to a queue and to a slice, and compares. A crash
// is a copy of the directory taken while the queue is open, with the tail of the
// last segment cut anywhere behind what was acknowledged.
func TestModel(t *testing.T) {
	for range 20 {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { runModel(t, seed) })
	}
}

type model struct {
	t     *testing.T
	dice  *rand.Rand
	opts  Options
	disk  *faultFS
	q     *Queue
	all   []string          // what is acknowledged: record n is all[n-1]
	acked map[string]uint64 // by sink
	read  map[string]*Cursor
}

func runModel(t *testing.T, seed uint64) {
	m := &model{t: t, dice: rand.New(rand.NewPCG(seed, 0)), acked: map[string]uint64{}, read: map[string]*Cursor{}}
	m.disk = &faultFS{FS: osFS{}}
	m.opts = Options{Directory: t.TempDir(), FS: m.disk, SegmentBytes: 1 << (9 + m.dice.IntN(8))}
	m.q = open(t, m.opts)
	// Both from the start: a sink that comes later misses what is gone.
	m.cursor("a")
	m.cursor("b")
	for range 60 {
		switch m.dice.IntN(10) {
		case 0:
			m.reopen(m.opts.Directory)
		case 1:
			m.crash()
		case 2, 3, 4:
			m.readSome()
		default:
			m.append()
		}
	}
	m.reopen(m.opts.Directory)
	for _, sink := range []string{"a", "b"} {
		equal(t, "all that sink "+sink+" has not acked", drain(t, m.q, m.cursor(sink)), m.from(m.acked[sink]))
	}
}

func (m *model) append() {
	var records []string
	for range 1 + m.dice.IntN(5) {
		records = append(records, fmt.Sprintf(`{"n":%d,"x":"%0*d"}`, m.dice.Uint64(), 1+m.dice.IntN(200), 0))
	}
	c := chunk(records...)
	c.Producer, c.Position = "p", uint64(len(m.all)+len(records))
	store(m.t, m.q, c)
	m.all = append(m.all, records...)
}

func (m *model) cursor(sink string) *Cursor {
	if m.read[sink] == nil {
		m.read[sink] = cursorOf(m.t, m.q, sink)
	}
	return m.read[sink]
}

func (m *model) readSome() {
	sink := []string{"a", "b"}[m.dice.IntN(2)]
	c := m.cursor(sink)
	if c.next > m.q.LastSeq() {
		return
	}
	records, err := c.Next(m.t.Context(), Limits{Records: 1 + m.dice.IntN(8), Bytes: 1 + m.dice.IntN(2000)})
	must(m.t, err)
	for _, r := range records {
		if got, want := string(r.Data), m.all[r.Seq-1]; got != want {
			m.t.Fatalf("record %d: got %s, want %s", r.Seq, got, want)
		}
	}
	if m.dice.IntN(3) > 0 {
		m.acked[sink] = records[len(records)-1].Seq
		must(m.t, c.Ack(m.acked[sink]))
	}
}

func (m *model) from(acked uint64) (want []string) {
	for n := acked + 1; n <= uint64(len(m.all)); n++ {
		want = append(want, fmt.Sprintf("%d:%s", n, m.all[n-1]))
	}
	return want
}

func (m *model) reopen(dir string) {
	closeQueue(m.t, m.q)
	clear(m.read)
	m.opts.Directory = dir
	m.q = open(m.t, m.opts)
	if got, want := m.q.LastSeq(), uint64(len(m.all)); got != want {
		m.t.Fatalf("last seq after reopen: got %d, want %d", got, want)
	}
	if n, _, err := m.q.Position(m.t.Context(), "p"); err != nil || n != uint64(len(m.all)) {
		m.t.Fatalf("position after reopen: got %d, %v, want %d", n, err, len(m.all))
	}
}

// crash continues on a copy of the directory as it is now. What the sinks have
// acked is durable only a little later, so they go back to what the copy says.
func (m *model) crash() {
	dir := m.t.TempDir()
	m.disk.frozen.Lock()
	names, err := osFS{}.List(m.opts.Directory)
	must(m.t, err)
	slices.Sort(names)
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(m.opts.Directory, name))
		must(m.t, err)
		must(m.t, os.WriteFile(filepath.Join(dir, name), content, filePerm))
	}
	m.disk.frozen.Unlock()
	if segments := segmentFiles(m.t, dir); len(segments) > 0 && m.dice.IntN(2) == 0 {
		m.garbage(segments[len(segments)-1])
	}
	m.reopen(dir)
	for sink := range m.acked {
		m.acked[sink] = m.cursor(sink).Account().Next - 1
	}
}

// garbage appends the beginning of a commit that was never acknowledged.
func (m *model) garbage(segment string) {
	content, err := os.ReadFile(segment)
	must(m.t, err)
	name, _ := parseSegmentName(filepath.Base(segment))
	b := encode(chunk(`{"torn":true}`, `{"torn":true}`))
	place(b, name.epoch, int64(len(content)), uint64(len(m.all)+1))
	must(m.t, os.WriteFile(segment, append(content, b[:m.dice.IntN(len(b))]...), filePerm))
}
