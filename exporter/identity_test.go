package exporter

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/sources"
)

// peer is who opens a session, and what becomes of it.
type peer struct {
	source, identity string
	evicted          bool
}

func (p *peer) opening(producer string, next uint64) sources.Opening {
	return sources.Opening{
		Source: p.source, Identity: p.identity, Producer: producer, Next: next,
		Evict: func() { p.evicted = true },
	}
}

// says sends lines of one hello, and returns what that was answered.
func (p *peer) says(t *testing.T, in *intakeTest, producer string, next uint64, lines string) (acked uint64) {
	t.Helper()
	s, acked, err := in.Open(t.Context(), p.opening(producer, next))
	if err != nil {
		t.Fatalf("%s as %q with next %d: %v", p.identity, producer, next, err)
	}
	defer s.Close()
	if lines != "" {
		submit(t, s, lines)
	}
	return acked
}

// Nothing that one says under a name moves, ends or answers anything of another source or
// identity, docket's own sources among them.
func TestANameIsOfItsSourceAndIdentity(t *testing.T) {
	in := newIntake(t, queue.Options{Directory: t.TempDir()})
	const name = "gatekeeper/audits/2026/17/900"
	victims := []*peer{{source: "gatekeeper"}, {source: "unix", identity: "uid:1"}, {source: "unix", identity: "uid:2"}, {source: "tcp", identity: "cert:CN=a"}}
	attackers := []*peer{{source: "unix", identity: "uid:3"}, {source: "tcp", identity: "any"}, {source: "tcp", identity: "uid:1"}}
	var live []sources.Session
	for i, v := range victims {
		s, acked, err := in.Open(t.Context(), v.opening(name, 1))
		if err != nil || acked != 0 {
			t.Fatalf("%+v: got acked %d, %v, want 0", v, acked, err)
		}
		submit(t, s, fmt.Sprintf("{\"v\":%d}\n", i))
		live = append(live, s)
	}
	for _, a := range attackers {
		if acked := a.says(t, in, name, 1000, "{\"attack\":1}\n"); acked != 0 {
			t.Errorf("%+v learns of another: acked %d", a, acked)
		}
	}
	for i, v := range victims {
		submit(t, live[i], fmt.Sprintf("{\"v\":%d,\"n\":2}\n", i))
		live[i].Close()
		if v.evicted {
			t.Errorf("%+v was evicted", v)
		}
		if acked := v.says(t, in, name, 3, "{}\n"); acked != 2 {
			t.Errorf("%+v: got acked %d, want 2", v, acked)
		}
	}
	if got, want := len(in.stored(t)), 3*len(victims)+len(attackers); got != want {
		t.Errorf("got %d records, want %d", got, want)
	}
}

// gapsIn returns the records of gaps among records, by their place.
func gapsIn(t *testing.T, records []string) map[int]decision.ProducerGap {
	t.Helper()
	found := map[int]decision.ProducerGap{}
	for i, r := range records {
		var g decision.ProducerGap
		if err := json.Unmarshal([]byte(r), &g); err == nil && g.EventType == decision.ProducerGapEvent {
			if g.Time.IsZero() {
				t.Errorf("record %s has no time", r)
			}
			g.Time = decision.ProducerGap{}.Time
			found[i] = g
		}
	}
	return found
}

// A producer that is known and leaves out numbers is told on with a record in front of
// the first line behind them. The lines are stored if they come after all, each once, and
// what is acknowledged never covers one that was not received.
func TestAJumpIsTold(t *testing.T) {
	opts := queue.Options{Directory: t.TempDir()}
	in := newIntake(t, opts)
	p := &peer{source: "tcp", identity: "cert:CN=a"}
	p.says(t, in, "p", 1, "{\"n\":1}\n{\"n\":2}\n")
	if p.says(t, in, "p", 10, ""); in.gaps != 0 || in.queue.LastSeq() != 2 {
		t.Errorf("a hello without a line: got %d lines counted and %d records", in.gaps, in.queue.LastSeq())
	}
	if acked := p.says(t, in, "p", 10, "{\"n\":10}\n{\"n\":11}\n"); acked != 2 {
		t.Errorf("acked of the jump: got %d, want 2", acked)
	}
	if in.gaps != 7 {
		t.Errorf("got %d lines counted, want 7", in.gaps)
	}
	in.close(t)

	in = newIntake(t, opts)
	for _, step := range []struct {
		next, acked uint64
		lines       string
	}{
		{12, 11, ""},
		{3, 2, "{\"n\":3}\n{\"n\":4}\n"},
		{8, 4, "{\"n\":8}\n{\"n\":9}\n{\"n\":10}\n"}, // the last is known
		{9, 11, "{\"n\":9}\n"},
		{1, 4, "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n{\"n\":4}\n{\"n\":5}\n{\"n\":6}\n{\"n\":7}\n{\"n\":8}\n"},
		{1, 11, ""},
	} {
		if acked := p.says(t, in, "p", step.next, step.lines); acked != step.acked {
			t.Errorf("next %d: got acked %d, want %d", step.next, acked, step.acked)
		}
	}
	records := in.stored(t)
	gaps := gapsIn(t, records)
	want := decision.ProducerGap{EventType: decision.ProducerGapEvent, Source: "tcp", Identity: "cert:CN=a", Producer: "p", From: 3, To: 9}
	if len(gaps) != 1 || gaps[2] != want || records[3] != `{"n":10}` {
		t.Errorf("got the gaps %+v in %q, want %+v in front of line 10", gaps, records, want)
	}
	var lines []string
	for _, n := range []int{1, 2, 10, 11, 3, 4, 8, 9, 5, 6, 7} {
		lines = append(lines, fmt.Sprintf(`{"n":%d}`, n))
	}
	if got := slices.Delete(slices.Clone(records), 2, 3); !slices.Equal(got, lines) {
		t.Errorf("got %q, want %q", got, lines)
	}
	if in.gaps != 0 {
		t.Errorf("lines that came after all are counted as a gap: %d", in.gaps)
	}
}

// A producer whose gaps are more than can be remembered is turned away, and nothing has
// changed for it: it can fill one, or go on where it was.
func TestAGapTooManyIsRefused(t *testing.T) {
	in := newIntake(t, queue.Options{Directory: t.TempDir()})
	p := &peer{source: "unix", identity: "uid:1"}
	const maxGaps = 16 // that the queue remembers of a producer
	for n := range uint64(maxGaps + 1) {
		p.says(t, in, "p", 1+10*n, "{}\n")
	}
	const last = 10*maxGaps + 1
	for _, next := range []uint64{last + 2, 5} {
		if _, _, err := in.Open(t.Context(), p.opening("p", next)); !errors.Is(err, sources.ErrTooManyGaps) {
			t.Errorf("next %d: got %v, want %v", next, err, sources.ErrTooManyGaps)
		}
	}
	if acked := p.says(t, in, "p", last+1, "{}\n"); acked != last {
		t.Errorf("got acked %d, want %d: its position has moved", acked, last)
	}
	p.says(t, in, "p", 2, "{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n")
	p.says(t, in, "p", last+10, "{}\n")
}

// While the queue takes no record of a gap, it takes no line behind it: the producer
// comes again, and is told on then.
func TestAGapWaitsForRoom(t *testing.T) {
	opts := queue.Options{Directory: t.TempDir(), SegmentBytes: 16 << 10, MaxBytes: 128 << 10, WhenFull: queue.Refuse}
	in := newIntake(t, opts)
	if _, err := in.queue.Cursor("reader", false); err != nil {
		t.Fatal(err)
	}
	p := &peer{source: "unix", identity: "uid:1"}
	p.says(t, in, "p", 1, "{}\n")
	other, _, _ := in.session(t, "", 0)
	for _, line := range []string{fmt.Sprintf("{\"pad\":\"%0900d\"}\n", 0), "{}\n"} {
		for before := uint64(0); in.queue.LastSeq() > before; { // until there is no room for it
			before = in.queue.LastSeq()
			submit(t, other, line)
		}
	}
	last := in.queue.LastSeq()
	for range 2 {
		s, _, err := in.Open(t.Context(), p.opening("p", 5))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Submit(t.Context(), []byte("{}\n")); !errors.Is(err, sources.ErrQueueFull) {
			t.Errorf("got %v, want %v", err, sources.ErrQueueFull)
		}
		s.Close()
	}
	if in.gaps != 0 || in.queue.LastSeq() != last {
		t.Errorf("got %d lines counted and %d records more, want none", in.gaps, in.queue.LastSeq()-last)
	}
}

// However many producers have refused lines that come again, what is remembered of an
// identity stays while another has more.
func TestKeptLinesAreOfAnIdentity(t *testing.T) {
	var k keptLines
	line := func(n int) []refusedLine { return []refusedLine{{Number: uint64(n), text: []byte("bad")}} }
	fresh := func(p queue.Producer, n int) []keptLine { _, which := k.without(p, line(n)); return which }
	good := queue.Producer{Source: "tcp", Identity: "cert:CN=good"}
	const mine = 100
	for n := range mine {
		good.Name = fmt.Sprint(n)
		k.remember(good, fresh(good, n))
	}
	for n := range 10 * maxKept {
		greedy := queue.Producer{Source: "tcp", Identity: "cert:CN=greedy", Name: fmt.Sprint(n)}
		k.remember(greedy, fresh(greedy, n))
		if k.total > maxKept {
			t.Fatalf("%d producers are remembered, want at most %d", k.total, maxKept)
		}
	}
	for n := range mine {
		good.Name = fmt.Sprint(n)
		if len(fresh(good, n)) != 0 {
			t.Errorf("a line of producer %d is forgotten", n)
		}
		if len(fresh(queue.Producer{Source: "tcp", Identity: "any", Name: good.Name}, n)) == 0 {
			t.Errorf("a line of producer %d is taken for that of another", n)
		}
	}
}

// A gap whose next line a full queue turns away is told and counted once, however often
// the line comes.
func TestAGapIsToldOnce(t *testing.T) {
	t.Parallel()
	step := 10
	if testing.Short() {
		step = 30
	}
	for size := 300; size < 960; size += step { // in some of these the record of the gap has room, and the line has none
		in := newIntake(t, queue.Options{Directory: t.TempDir(), SegmentBytes: 16 << 10, MaxBytes: 64 << 10, WhenFull: queue.Refuse})
		if _, err := in.queue.Cursor("reader", false); err != nil {
			t.Fatal(err)
		}
		p := &peer{source: "unix", identity: "uid:1"}
		p.says(t, in, "p", 1, "{}\n")
		big := fmt.Sprintf("{\"pad\":\"%0*d\"}\n", size, 0)
		other, _, _ := in.session(t, "", 0)
		for before := uint64(0); in.queue.LastSeq() > before; {
			before = in.queue.LastSeq()
			submit(t, other, big)
		}
		last := in.queue.LastSeq()
		for range 5 {
			s, _, err := in.Open(t.Context(), p.opening("p", 5))
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Submit(t.Context(), []byte(big)); !errors.Is(err, sources.ErrQueueFull) {
				t.Errorf("got %v, want %v", err, sources.ErrQueueFull)
			}
			s.Close()
		}
		if n := in.queue.LastSeq() - last; n > 1 || in.gaps > 3 {
			t.Errorf("size %d: one gap of 3 lines: got %d records and %d lines counted", size, n, in.gaps)
		}
	}
}
