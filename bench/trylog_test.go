package main

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/decision"
)

// The record is what the page says it is.
func TestDenial(t *testing.T) {
	r := denial()
	line, err := r.AppendLine(nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(line) < 1000 || len(line) > 1050 {
		t.Errorf("got a line of %d bytes, want about 1 KB", len(line))
	}
	want := fields(t, line)
	if got := len(want); got != 28 {
		t.Errorf("got %d fields, and the page says 28", got)
	}
}

func fields(t *testing.T, line []byte) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(line, &m); err != nil {
		t.Fatalf("%v in %s", err, line)
	}
	return m
}

func TestCosts(t *testing.T) {
	e, socket := serve(t)
	c, err := client.New(client.Config{Address: "unix://" + socket})
	if err != nil {
		t.Fatal(err)
	}
	values, err := costs(t.Context(), c, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := slices.Sorted(maps.Keys(values)), valueKeys(t, "trylog"); !slices.Equal(got, want) {
		t.Errorf("got values for %v, want %v", got, want)
	}
	if got, want := len(e.Lines()), (warmBursts+turnBursts)*burstCalls; got != want {
		t.Errorf("got %d lines at the exporter, want %d: every call is one", got, want)
	}
	for _, key := range []string{"on", "off"} {
		if values[key] <= 0 {
			t.Errorf("%s: got %v ns", key, values[key])
		}
	}
	if values["offAllocs"] != 0 {
		t.Errorf("a client that is off: got %v allocations, want none", values["offAllocs"])
	}
}

// A burst that does not fit must not be taken for a fast one.
func TestCostsFailsWhenRecordsAreShed(t *testing.T) {
	e, socket := serve(t)
	e.Mute()
	c, err := client.New(client.Config{Address: "unix://" + socket, MaxBufferedBytes: client.MinBufferedBytes})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := costs(t.Context(), c, 1); !errors.Is(err, client.ErrFull) {
		t.Errorf("got error %v, want %v", err, client.ErrFull)
	}
	e.Unmute()
	if _, err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := allStored(c.Stats()); err == nil {
		t.Error("a record was lost, got no error")
	}
}

func TestAllStored(t *testing.T) {
	tests := map[string]struct {
		stats client.Stats
		want  string // in the error; empty: none
	}{
		"all stored":  {client.Stats{Logged: 7, Stored: 7}, ""},
		"one refused": {client.Stats{Logged: 7, Stored: 6, Refused: 1}, "1 refused"},
		"one open":    {client.Stats{Logged: 7, Stored: 6}, "6 were stored"},
		"one lost":    {client.Stats{Logged: 7, Stored: 7, Lost: map[decision.Decision]uint64{decision.Deny: 1}}, "deny:1"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := allStored(tt.stats)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got error %v, want %q in it", err, tt.want)
			}
		})
	}
}

func TestMeasuresOfLogged(t *testing.T) {
	p := logged{calls: 100, mallocs: 33, took: []time.Duration{400, 100, 900}}
	if got, want := p.perCall(), 4.0; got != want {
		t.Errorf("median burst: got %v ns, want %v", got, want)
	}
	if got, want := p.allocsPerCall(), 0.11; got != want {
		t.Errorf("got %v allocations, want %v", got, want)
	}
}

// Each burst but the first meets one that is not stored yet, and never two.
func TestWaitBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, c := memory(t)
		defer e.Close()
		e.Hold()
		wait := waitBehind(t.Context(), c)
		burst := tryLogger{c, denial()}.burst
		if err := errors.Join(burst(3), wait()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the waiting for the first burst has begun
		ended := make(chan error, 1)
		go func() { ended <- errors.Join(burst(4), wait()) }()
		synctest.Wait()
		if got, want := e.Held(), 7; got != want || len(ended) > 0 {
			t.Errorf("before the first burst is stored: got %d lines at the exporter, %d waits ended; want %d and none", got, len(ended), want)
		}
		e.Settle(3)
		synctest.Wait()
		if got, want := e.Held(), 4; got != want || len(ended) != 1 {
			t.Errorf("after it: got %d lines open, %d waits ended; want %d and one", got, len(ended), want)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		e.Release()
		if _, err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// What warms up is not counted; what is sent after the last burst is.
func TestTurn(t *testing.T) {
	const calls = 1000
	var bursts, rests int
	var kept *[64]byte
	allocate := func(n int) error {
		for range n {
			kept = new([64]byte)
		}
		return nil
	}
	p := logged{
		calls: calls,
		burst: func(n int) error { bursts++; return allocate(n) },
		rest:  func() error { rests++; return nil },
		flush: func(context.Context) error { return allocate(turnBursts * calls) },
	}
	for range 2 {
		if err := p.turn(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if want := 2 * (warmBursts + turnBursts); bursts != want || rests != want {
		t.Errorf("got %d bursts and %d rests, want %d", bursts, rests, want)
	}
	if got, want := len(p.took), 2*turnBursts; got != want {
		t.Errorf("got the times of %d bursts, want %d", got, want)
	}
	if got := p.allocsPerCall(); got < 2 || got > 2.1 {
		t.Errorf("got %v allocations a call, want 2: one in the burst and one behind it", got)
	}
	runtime.KeepAlive(kept)
}
