package exporter

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/sources"
)

// A run of equal refusals is one entry with a count, and what goes on later is one more.
func TestEqualRefusalsAreOneEntry(t *testing.T) {
	in := newIntake(t, queue.Options{Directory: t.TempDir()})
	s, _, r := in.session(t, "p", 1)
	const lines = 1000
	submit(t, s, strings.Repeat("x\n", lines))
	submit(t, s, "y\n"+strings.Repeat("x\n", lines))
	if got := len(r.refused()); got != 2*lines+1 {
		t.Errorf("refusals answered: got %d, want %d", got, 2*lines+1)
	}
	if err := in.refused.close(); err != nil {
		t.Fatal(err)
	}
	got := refusedFiles(t, in.dir)
	if len(got) != 5 {
		t.Fatalf("entries: got %d, %v, want 5", len(got), got)
	}
	total := 0.0
	for _, o := range got {
		count, _ := o["count"].(float64)
		total += max(count, 1)
	}
	if total != 2*lines+1 {
		t.Errorf("lines in the entries: got %v, want %d", total, 2*lines+1)
	}
	if rest := got[1]; rest["line"] != "x" || rest["seq"] != maxRefused+1.0 || rest["lastSeq"] != float64(lines) {
		t.Errorf("the rest of the first run: got %v, want lines %d to %d", rest, maxRefused+1, lines)
	}
	if n := in.refused.rate.linesLeftOut("test"); n != 0 {
		t.Errorf("left out: got %d, want none", n)
	}
}

// The flood of one peer uses up its own allowance, and nobody else's.
func TestRefusedRateIsPerPeer(t *testing.T) {
	dir := t.TempDir()
	log := &refusedLog{dir: disk.At(dir), log: slog.New(slog.DiscardHandler)}
	flood, n := 0, 100000
	for flood < n {
		var lines []refusedLine
		for range maxRefused {
			flood++
			lines = append(lines, refusedLine{Source: "s", identity: "loud", Reason: sources.InvalidJSON, text: fmt.Append(nil, "x", flood)})
		}
		log.add(lines)
	}
	if log.file.End > 2*allowanceBytes {
		t.Errorf("written of the flood: got %d bytes, want at most %d", log.file.End, 2*allowanceBytes)
	}
	before := log.rate.linesLeftOut("s")
	if before == 0 || before > uint64(flood) {
		t.Errorf("left out: got %d of %d, want most", before, flood)
	}
	size := log.file.End
	log.add([]refusedLine{{Source: "s", identity: "quiet", Reason: sources.InvalidJSON, text: []byte("y")}})
	if log.file.End == size || log.rate.linesLeftOut("s") != before {
		t.Error("the line of another peer is left out")
	}
	if err := log.close(); err != nil {
		t.Fatal(err)
	}
}

// An allowance comes back with time, and peers without end share one.
func TestAllowance(t *testing.T) {
	var r refusedRate
	now := time.Now()
	line := refusedLine{Source: "s", identity: "a", Reason: sources.InvalidJSON}
	r.of(&line, now).bytes = -10 * allowancePerSecond
	if chosen := r.choose([]refusedLine{line}, now.Add(5*time.Second)); len(chosen) != 0 {
		t.Errorf("before the time: got %v, want it left out", chosen)
	}
	line.text = []byte("another")
	if chosen := r.choose([]refusedLine{line}, now.Add(11*time.Second)); len(chosen) != 1 {
		t.Error("after the time: got it left out, want it kept")
	}
	for i := range 3 * maxAllowances {
		r.of(&refusedLine{Source: "s", identity: fmt.Sprint(i)}, time.Now())
	}
	if n := len(r.allowances); n > maxAllowances+1 {
		t.Errorf("allowances: got %d, want at most %d", n, maxAllowances+1)
	}
}

// Refusals do not gather: no more lines are decided before those that were refused are
// passed on.
func TestRefusalsInFlightAreBounded(t *testing.T) {
	in := newIntake(t, queue.Options{Directory: t.TempDir()})
	open, most := 0, 0
	o := sources.Opening{Source: "test", Producer: "p", Next: 1, Evict: func() {}}
	o.Settled = func(r sources.Receipt) { open += len(r.Refused); most = max(most, open) }
	o.Drained = func(context.Context) error { open = 0; return nil }
	s, _, err := in.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 10 {
		submit(t, s, strings.Repeat("x\n", 1000)+strings.Repeat("{}\ny\n", 30))
	}
	if most > maxRefused {
		t.Errorf("refusals that were not passed on: got %d, want at most %d", most, maxRefused)
	}
}
