package exporter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/docket-export/docket/client/clienttest/await"
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

// While the queue takes no record of a gap, it takes no line behind it. A producer that
// comes again meanwhile is told on as soon as there is room, and once.
func TestAGapWaitsForRoom(t *testing.T) {
	opts := queue.Options{Directory: t.TempDir(), SegmentBytes: 16 << 10, MaxBytes: 128 << 10}
	in := newIntake(t, opts)
	reader, err := in.queue.Cursor("reader", false)
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{source: "unix", identity: "uid:1"}
	p.says(t, in, "p", 1, "{}\n")
	other, _, _ := in.session(t, "", 0)
	filling, filled := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		var err error
		for err == nil {
			err = other.Submit(filling, []byte("{}\n"))
		}
		ended <- err
	}()
	await.Until(t, "the queue is full", func() bool { return in.queue.Stats().Full })
	filled()
	<-ended
	last := in.queue.LastSeq()
	for range 2 {
		s, _, err := in.Open(t.Context(), p.opening("p", 5))
		if err != nil {
			t.Fatal(err)
		}
		ctx, gone := context.WithCancel(t.Context())
		submitted := make(chan error)
		go func() { submitted <- s.Submit(ctx, []byte("{}\n")) }()
		await.Until(t, "the record of the gap waits", func() bool { return in.queue.Stats().Full })
		gone()
		if err := <-submitted; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
		s.Close()
	}
	if in.gaps != 0 || in.queue.LastSeq() != last {
		t.Errorf("got %d lines counted and %d records more, want none", in.gaps, in.queue.LastSeq()-last)
	}
	for reader.Account().Next <= last {
		records, err := reader.Next(t.Context(), queue.Limits{Records: 1 << 20, Bytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		if err := reader.Ack(records[len(records)-1].Seq); err != nil {
			t.Fatal(err)
		}
	}
	p.says(t, in, "p", 5, "{}\n")
	if in.gaps != 3 {
		t.Errorf("got %d lines counted, want 3", in.gaps)
	}
}
