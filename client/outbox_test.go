package client

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// modelLine is what the model knows of a line.
type modelLine struct {
	rank, size int
	keep       bool
}

// modelOutbox is an outbox in a few slow lines.
type modelOutbox struct {
	limit   int
	waiting []modelLine
	flight  []modelLine
	shed    []modelLine
}

func (m *modelOutbox) used() (bytes int) {
	for _, l := range append(slices.Clone(m.waiting), m.flight...) {
		bytes += l.size
	}
	return bytes
}

func (m *modelOutbox) take(l modelLine) bool {
	next := *m
	next.waiting, next.shed = slices.Clone(m.waiting), slices.Clone(m.shed)
	for next.used()+l.size > m.limit {
		victim := -1
		for i, w := range next.waiting {
			if !w.keep && w.rank > l.rank && (victim < 0 || w.rank > next.waiting[victim].rank) {
				victim = i
			}
		}
		if victim < 0 {
			return false
		}
		next.shed = append(next.shed, next.waiting[victim])
		next.waiting = slices.Delete(next.waiting, victim, victim+1)
	}
	next.waiting = append(next.waiting, l)
	*m = next
	return true
}

// Whatever is done, in whatever order, the outbox keeps what the model keeps, in
// the same order, and drops what the model drops.
func TestOutboxModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 0))
	const ranks = 4
	box := newOutbox(20_000, 0, ranks)
	model := modelOutbox{limit: 20_000}
	var shed []modelLine // in one step
	total := 0
	drop := func(l *line) { shed = append(shed, modelLine{l.rank, l.size(), l.keep}) }
	for step := range 20_000 {
		shed, model.shed = shed[:0], nil
		switch roll := dice.IntN(20); {
		case roll < 13:
			l := &line{text: make([]byte, 1+dice.IntN(600)), rank: dice.IntN(ranks), keep: dice.IntN(20) == 0}
			m := modelLine{l.rank, l.size(), l.keep}
			got, want := box.makeRoom(l, drop), model.take(m)
			if got != want {
				t.Fatalf("step %d: makeRoom: got %t, want %t", step, got, want)
			}
			if got {
				box.add(l)
			}
		case roll < 17:
			l := box.number()
			if (l == nil) != (len(model.waiting) == 0) {
				t.Fatalf("step %d: number: got %v with %d waiting", step, l, len(model.waiting))
			}
			if l != nil {
				if got := (modelLine{l.rank, l.size(), l.keep}); got != model.waiting[0] {
					t.Fatalf("step %d: number: got %+v, want %+v", step, got, model.waiting[0])
				}
				model.flight = append(model.flight, model.waiting[0])
				model.waiting = model.waiting[1:]
			}
		case box.flight.len() > 0:
			first := box.first
			l := box.release()
			if got := (modelLine{l.rank, l.size(), l.keep}); got != model.flight[0] || box.first != first+1 {
				t.Fatalf("step %d: release: got %+v, want %+v", step, got, model.flight[0])
			}
			model.flight = model.flight[1:]
		}
		if box.used != model.used() || box.used > box.limit || box.count != len(model.waiting)+len(model.flight) ||
			!slices.Equal(shed, model.shed) {
			t.Fatalf("step %d: got %d bytes in %d lines, %d shed, want %d in %d, %d shed", step,
				box.used, box.count, len(shed), model.used(), len(model.waiting)+len(model.flight), len(model.shed))
		}
		total += len(shed)
	}
	if total == 0 {
		t.Error("nothing was ever shed: the test tests nothing")
	}
}
