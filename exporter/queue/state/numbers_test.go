package state

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// What a producer may do, in any order, against a set of numbers: a number is known when
// its line was received, and never otherwise.
func TestNumbersAreASet(t *testing.T) {
	seed := rand.Uint64()
	if testing.Short() {
		seed = 1 // the gate decides nothing by chance
	}
	dice := rand.New(rand.NewPCG(seed, 1))
	const most = 200
	for range 200 {
		var n Numbers
		received := map[uint64]bool{}
		highest := uint64(0)
		for range 60 {
			from := 1 + dice.Uint64N(most)
			to := from + dice.Uint64N(6)
			before := slices.Clone(n.Gaps)
			if !n.Fits(from) {
				if len(n.Gaps) < maxGaps {
					t.Fatalf("seed %d: %v does not take %d", seed, n, from)
				}
				continue
			}
			shared := n
			n.receive(from, to)
			if !slices.Equal(shared.Gaps, before) {
				t.Fatalf("seed %d: a copy has changed: got %v, want %v", seed, shared.Gaps, before)
			}
			for number := from; number <= to; number++ {
				received[number] = true
			}
			highest = max(highest, to)
			if n.Highest != highest || len(n.Gaps) > maxGaps {
				t.Fatalf("seed %d: after %d to %d: got %+v, want highest %d", seed, from, to, n, highest)
			}
			for number := uint64(1); number < most+10; number++ {
				if n.Has(number) != received[number] {
					t.Fatalf("seed %d: after %d to %d, %+v: has %d: got %t", seed, from, to, n, number, n.Has(number))
				}
			}
		}
	}
}

// The highest number below the first gap at or after the next one.
func TestAckedIsBelowTheFirstGap(t *testing.T) {
	n := Numbers{Highest: 30, Gaps: []Gap{{From: 5, To: 9}, {From: 20, To: 20}}}
	for next, want := range map[uint64]uint64{1: 4, 5: 4, 7: 4, 9: 4, 10: 19, 20: 19, 21: 30, 31: 30, 99: 30} {
		if got := n.Acked(next); got != want {
			t.Errorf("acked with next %d: got %d, want %d", next, got, want)
		}
		// A producer that believes it, if it is at or beyond next, loses nothing.
		for number := next; number <= n.Acked(next); number++ {
			if !n.Has(number) {
				t.Errorf("acked with next %d is %d, and %d was never received", next, n.Acked(next), number)
			}
		}
	}
}

// Damage takes frames away, and so can leave more gaps than are remembered. No line is
// ever taken for known that was not received.
func TestTooManyGapsForgetWhatWasReceived(t *testing.T) {
	var n Numbers
	received := map[uint64]bool{}
	for number := uint64(1); number < 200; number += 1 + number%5 {
		n.receive(number, number)
		received[number] = true
	}
	if len(n.Gaps) != maxGaps || n.Highest != 197 {
		t.Errorf("got %d gaps up to %d, want %d up to 197", len(n.Gaps), n.Highest, maxGaps)
	}
	for number := uint64(1); number < 200; number++ {
		if n.Has(number) && !received[number] {
			t.Errorf("line %d is known, and was never received", number)
		}
	}
	if n.Fits(300) {
		t.Error("one more gap fits")
	}
	if !n.Fits(198) || !n.Fits(n.Gaps[3].From) {
		t.Error("a line that makes no gap does not fit")
	}
}
