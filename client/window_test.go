package client

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// A window against a slice of lines.
func TestWindowModel(t *testing.T) {
	for seed := range uint64(200) {
		dice := rand.New(rand.NewPCG(seed, 0))
		maxBytes, maxLines := 20+dice.IntN(3*firstRing), 1+dice.IntN(300)
		w := newWindow(maxBytes, maxLines)
		var model []string
		used, first := 0, uint64(1)
		for step := range 2000 {
			switch dice.IntN(3) {
			case 0, 1:
				line := strings.Repeat(string(rune('a'+step%26)), 1+dice.IntN(min(maxBytes-1, 2000)))
				fits := len(model) < maxLines && used+len(line)+1 <= maxBytes
				if got := w.push([]byte(line)); got != fits {
					t.Fatalf("seed %d step %d: push of %d into %d of %d: got %t, want %t", seed, step, len(line), used, maxBytes, got, fits)
				}
				if fits {
					model, used = append(model, line+"\n"), used+len(line)+1
				}
			case 2:
				if len(model) == 0 {
					continue
				}
				n := 1 + dice.IntN(len(model))
				w.release(first + uint64(n) - 1)
				used -= len(strings.Join(model[:n], ""))
				model, first = model[n:], first+uint64(n)
			}
			if step%50 == 0 {
				if got, want := contents(&w), strings.Join(model, ""); got != want {
					t.Fatalf("seed %d step %d: got %.100q, want %.100q", seed, step, got, want)
				}
				if w.first != first || w.last() != first+uint64(len(model))-1 {
					t.Fatalf("seed %d step %d: numbers %d to %d, want from %d, %d lines", seed, step, w.first, w.last(), first, len(model))
				}
			}
		}
		if len(w.buf) > maxBytes || len(w.ends) > maxLines {
			t.Fatalf("seed %d: ring of %d bytes and %d lines, want at most %d and %d", seed, len(w.buf), len(w.ends), maxBytes, maxLines)
		}
	}
}

func contents(w *window) string {
	var b strings.Builder
	for at := w.tail; at < w.head; {
		piece := w.piece(at, 777)
		b.Write(piece)
		at += uint64(len(piece))
	}
	return b.String()
}

// What a write reads is neither overwritten nor counted as free.
func TestWindowPin(t *testing.T) {
	w := newWindow(40, 100)
	for w.push([]byte("123456789")) {
	}
	piece := w.piece(0, 20)
	w.pinned, w.pin = true, 0
	w.release(3)
	if w.push([]byte("abc")) {
		t.Error("push while all is pinned: got true, want false")
	}
	w.pin = 20
	if !w.push([]byte("abcdefghijklmnopqrs")) {
		t.Error("push into the 20 bytes before the pin: got false, want true")
	}
	if w.push([]byte("")) {
		t.Error("push beyond the pin: got true, want false")
	}
	if got, want := string(w.piece(30, 10)), "123456789\n"; got != want {
		t.Errorf("line 4: got %q, want %q", got, want)
	}
	if got := string(piece); got != "abcdefghijklmnopqrs\n" {
		t.Errorf("the pinned write had 0 to 20 and now has %q: the test is wrong", got)
	}
	w.pinned = false
	if !w.push([]byte(fmt.Sprint(123456789))) {
		t.Error("push when nothing is pinned: got false, want true")
	}
}
