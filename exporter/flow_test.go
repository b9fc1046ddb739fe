package exporter

import (
	"testing"
	"time"

	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/exporter/queue/state"
)

// flowStats is a queue that has stored records of 1000 bytes, all received from "api", of
// which the sink "bus" has the first few.
func flowStats(stored, delivered uint64) queue.Stats {
	return queue.Stats{
		FirstSeq: 1, LastSeq: stored, Bytes: int64(stored) * 1000, Free: max(0, 1_000_000-int64(stored-delivered)*1000),
		Sources: map[string]state.SourceTally{"api": {Received: stored + stored/10}},
		Cursors: map[string]queue.Account{"bus": {Next: delivered + 1, Delivered: delivered}},
	}
}

func TestRates(t *testing.T) {
	start := time.Now()
	for name, test := range map[string]struct {
		seconds                     int // since the start; 10 records a second are stored, 4 delivered
		stored, received, delivered float64
		fullIn                      float64 // below 0: not
	}{
		"at the start": {0, 0, 0, 0, -1},
		// (1000 - 6*10) / 6
		"10 seconds":    {10, 10, 11, 4, 156.67},
		"a minute":      {60, 10, 11, 4, 106.67},
		"three minutes": {180, 10, 11, 4, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var f flow
			for at := range test.seconds + 1 {
				f.look(flowStats(uint64(10*at), uint64(4*at)), start.Add(time.Duration(at)*time.Second))
			}
			if n := len(f.samples); n > int(rateSpan/rateStep)+1 {
				t.Errorf("got %d samples, want no more than those of a minute", n)
			}
			stats := flowStats(uint64(10*test.seconds), uint64(4*test.seconds))
			r := f.rates(stats, start.Add(time.Duration(test.seconds)*time.Second))
			for what, n := range map[string][2]float64{
				"stored": {r.stored(), test.stored}, "received": {r.received("api"), test.received}, "delivered": {r.delivered("bus"), test.delivered},
			} {
				if n[0] != n[1] {
					t.Errorf("%s: got %v a second, want %v", what, n[0], n[1])
				}
			}
			got := -1.0
			if full := r.fullIn(stats, Active); full != nil {
				got = *full
			}
			if d := got - test.fullIn; d < -0.01 || d > 0.01 {
				t.Errorf("got it full in %v s, want %v", got, test.fullIn)
			}
			for _, state := range []State{Degraded, Error} {
				if full := r.fullIn(stats, state); full != nil {
					t.Errorf("got it full in %v s in state %s, want no forecast", *full, state)
				}
			}
		})
	}
}

// Rates are those of the last minute, and none is negative.
func TestRatesChange(t *testing.T) {
	start := time.Now()
	var f flow
	for at := range 120 {
		f.look(flowStats(1000, 900), start.Add(time.Duration(at)*time.Second))
	}
	stats := flowStats(1000, 0) // a replay
	r := f.rates(stats, start.Add(120*time.Second))
	if r.stored() != 0 || r.delivered("bus") != 0 {
		t.Errorf("got %v stored and %v delivered a second after two quiet minutes, want none", r.stored(), r.delivered("bus"))
	}
	if r.fullIn(stats, Active) != nil {
		t.Error("got a time when it is full, want none: it does not grow")
	}
	stats.Cursors["new"], stats.LastSeq = queue.Account{Next: 601, Delivered: 600}, 1060
	if r := f.rates(stats, start.Add(120*time.Second)); r.delivered("new") < 9 || r.delivered("new") > 10 || r.stored() < 0.9 || r.stored() > 1 {
		t.Errorf("got %v a second for a sink that is new, and %v stored, want some 600 and 60 a minute", r.delivered("new"), r.stored())
	}
}
