package state

import (
	"math"
	"testing"

	"github.com/docket-export/docket/exporter/queue/segment"
)

// Overlapping losses count once.
func TestOverlappingLossesCountOnce(t *testing.T) {
	s := New(0)
	s.AddLost(segment.SeqRange{From: 15, To: 20})
	s.AddLost(segment.SeqRange{From: 10, To: 20})
	s.AddLost(segment.SeqRange{From: 10, To: 25})
	s.AddLost(segment.SeqRange{From: 24, To: 30})
	if got := s.Corrupt(); got != 20 {
		t.Errorf("corrupt: got %d, want 20: %v", got, s.Lost)
	}
}

// Whatever a frame says, a count stops where it is still exact.
func TestLostCountsOfAFrameDoNotWrap(t *testing.T) {
	s := New(0)
	b := segment.AppendFrame(nil, &segment.Chunk{Lost: []segment.Tally{{Name: "deny", Count: math.MaxUint64}}}, 0)
	segment.Place(b, 1, segment.HeaderSize, 1)
	f, err := segment.ParseHeader(b)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s.Add(&f, 0)
	}
	if got := s.Sources[""].Lost["deny"]; got != segment.MaxLost {
		t.Errorf("got %d, want %d", got, uint64(segment.MaxLost))
	}
}
