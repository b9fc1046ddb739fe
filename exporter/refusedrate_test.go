package exporter

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/sources"
)

// The flood of one source uses up its own allowance, and nobody else's. It comes back with time.
func TestRefusedRate(t *testing.T) {
	dir := t.TempDir()
	log := &refusedLog{dir: disk.At(dir), log: slog.New(slog.DiscardHandler)}
	line := func() []refusedLine {
		return []refusedLine{{Source: "loud", Reason: sources.InvalidJSON, text: []byte("x")}}
	}
	flood := uint64(0)
	for flood < 20000 {
		log.add("loud", slices.Repeat(line(), maxRefused))
		flood += maxRefused
	}
	before := log.rate.linesLeftOut("loud")
	if log.file.End > 2*allowanceBytes || before == 0 || before >= flood {
		t.Errorf("written of the flood: got %d bytes, and %d of %d lines left out, want at most %d bytes and most left out", log.file.End, before, flood, 2*allowanceBytes)
	}
	size := log.file.End
	log.add("other", line())
	if log.file.End == size || log.rate.linesLeftOut("other") != 0 {
		t.Error("the line of another source is left out")
	}
	now := log.rate.allowances["loud"].at
	if admitted, _ := log.rate.admit("loud", 5000, now.Add(4*time.Second)); admitted {
		t.Error("before the time: admitted, want it left out")
	}
	if admitted, _ := log.rate.admit("loud", 5000, now.Add(6*time.Second)); !admitted {
		t.Error("after the time: left out, want it admitted")
	}
	if err := log.close(); err != nil {
		t.Fatal(err)
	}
}

// A panic while lines are refused, and a context that ends, leave the log of refused lines to others.
func TestRefusingIsLeftToOthers(t *testing.T) {
	in := newIntake(t, queue.Options{Directory: t.TempDir()})
	s, _, _ := in.session(t, "", 0)
	in.refusing <- struct{}{} // another one refuses
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Submit(ctx, []byte("x\n")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that the context has ended", err)
	}
	<-in.refusing
	v := s.(*session).newVerdict()
	func() {
		defer func() { _ = recover() }()
		defer v.release()
		if err := v.claim(t.Context()); err != nil {
			t.Error(err)
		}
		panic("a bug")
	}()
	submit(t, s, "x\n")
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
