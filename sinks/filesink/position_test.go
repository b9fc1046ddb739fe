package filesink

import (
	"bytes"
	"testing"

	"github.com/docket-export/docket/sinks/filesink/manifest"
)

func TestPositionSlots(t *testing.T) {
	want := position{
		generation: 7, queue: idA, last: 42, lost: true,
		file: file{
			form: zstandard, size: 1 << 40, records: 12, first: 3, lastRecord: 41,
			opened: timeOf(1e18), firstReceived: timeOf(3e18), lastReceived: timeOf(4e18), sum: hashState{5, hashSize - 1: 6},
		},
		finishing: timeOf(2e18), dated: true, manifest: 1 << 41, chain: manifest.Hash{7, 31: 8}, settled: 1 << 42, gaps: 170, gapSum: 1 << 31,
	}
	slot := want.encode(nil)
	if len(slot) != positionSlot {
		t.Fatalf("a slot has %d bytes, want %d", len(slot), positionSlot)
	}
	if got, ok := decodeSlot(slot); !ok || got != want {
		t.Fatalf("decoded %+v, %v, want %+v", got, ok, want)
	}
	for i := range slot {
		for bit := range 8 {
			damaged := bytes.Clone(slot)
			damaged[i] ^= 1 << bit
			if got, ok := decodeSlot(damaged); ok {
				t.Fatalf("bit %d of byte %d flipped: decoded %+v, want refusal", bit, i, got)
			}
		}
	}
	if _, ok := decodeSlot(slot[:positionSlot-1]); ok {
		t.Error("a cut slot was decoded")
	}
	if got, ok := decodeSlot(position{}.encode(nil)); !ok || got != (position{}) {
		t.Errorf("zero position decoded as %+v, %v", got, ok)
	}
}
