package lineage

import (
	"math"
	"slices"
	"testing"
)

func TestThrough(t *testing.T) {
	own := Lineage{{"A", 1}, {"B", 6}, {"C", 20}}
	for name, tt := range map[string]struct {
		other   Lineage
		next    uint64
		through uint64
		known   bool
	}{
		"the same":                         {own, 25, 24, true},
		"behind":                           {own[:2], 10, 9, true},
		"behind within the first":          {own[:1], 4, 3, true},
		"nothing":                          {nil, 1, 0, true},
		"begun and still without a record": {Lineage{{"A", 1}, {"X", 6}}, 6, 5, true},
		"went on after the copy":           {Lineage{{"A", 1}}, 13, 5, true},
		"started again after the copy":     {Lineage{{"A", 1}, {"X", 9}, {"Y", 11}}, 13, 5, true},
		"another copy":                     {Lineage{{"A", 1}, {"X", 3}}, 13, 2, true},
		"a later copy":                     {Lineage{{"A", 1}, {"B", 6}, {"X", 15}}, 17, 14, true},
		"the copy is of the end":           {Lineage{{"A", 1}, {"B", 6}, {"X", 20}}, 30, 19, true},
		"older ones are forgotten":         {Lineage{{"B", 6}, {"X", 12}}, 13, 11, true},
		"all common ones are forgotten":    {Lineage{{"X", 12}}, 13, 0, false},
		"another queue":                    {Lineage{{"Q", 1}}, 7, 0, false},
		"unknown":                          {nil, 7, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			through, known := own.Through(tt.other, tt.next)
			if through != tt.through || known != tt.known {
				t.Errorf("got %d, %v, want %d, %v", through, known, tt.through, tt.known)
			}
		})
	}
}

func TestAt(t *testing.T) {
	l := Lineage{{"B", 6}, {"C", 20}}
	for seq, want := range map[uint64]string{1: "B", 6: "B", 19: "B", 20: "C", 1000: "C", math.MaxUint64: "C"} {
		if got := l.At(seq); got != want {
			t.Errorf("%d: got %s, want %s", seq, got, want)
		}
	}
	for seq, want := range map[uint64]Lineage{1: l, 7: l, 19: l, 20: l[1:], 30: l[1:]} {
		if got := l.From(seq); !slices.Equal(got, want) {
			t.Errorf("from %d: got %v, want %v", seq, got, want)
		}
	}
}

func TestJoin(t *testing.T) {
	checkpoint := Lineage{{"A", 1}, {"B", 6}}
	segments := Lineage{{"A", 3}, {"B", 6}, {"B", 9}, {"C", 12}, {"D", 12}, {"D", 14}}
	want := Lineage{{"A", 1}, {"B", 6}, {"D", 12}}
	got := Join(checkpoint, segments)
	if !slices.Equal(got, want) || got.At(12) != "D" {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := got.Begin("E", 12); !slices.Equal(got, Lineage{{"A", 1}, {"B", 6}, {"E", 12}}) {
		t.Errorf("an incarnation without records stays: %v", got)
	}
}
