package filesink

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"testing"

	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/filesink/manifest"
)

func TestPositionSlots(t *testing.T) {
	want := position{
		generation: 7, queue: idA, last: 42, lost: true,
		file: file{
			form: zstandard, size: 1 << 40, records: 12, first: 3, lastRecord: 41,
			opened: timeOf(1e18), firstReceived: timeOf(3e18), lastReceived: timeOf(4e18), sum: hashState{5, hashSize - 1: 6},
		},
		finishing: timeOf(2e18), manifest: 1 << 41, chain: manifest.Hash{7, 31: 8}, settled: 1 << 42, gaps: 170, gapSum: 1 << 31,
	}
	slot := want.encode(nil)
	if len(slot) != positionSlot {
		t.Fatalf("a slot has %d bytes, want %d", len(slot), positionSlot)
	}
	if got, ok := decodeSlot(slot); !ok || !reflect.DeepEqual(got, want) {
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
	if got, ok := decodeSlot(position{}.encode(nil)); !ok || !reflect.DeepEqual(got, position{}) {
		t.Errorf("zero position decoded as %+v, %v", got, ok)
	}
}

// asVersion2 is a position file as a docket wrote it whose ids began with that of the queue.
func asVersion2(b []byte) []byte {
	b = append(bytes.Clone(b[:slotsEnd]), b[gapLogStart:]...)
	for offset := 0; offset < slotsEnd; offset += slotDistance {
		slot := b[offset:]
		slot[len(positionMagic)-1] = '2'
		binary.BigEndian.PutUint32(slot[positionBody:], checksum(slot[:positionBody]))
	}
	return b
}

// The export of an earlier docket goes on, and its records are known again.
func TestPositionOfVersion2(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, rotating(dir, 0), nil)
	mustSend(t, s, batchOf(t, "1 2 F3-4 5"))
	mustSend(t, s, batchOf(t, "F6-8"))
	mustClose(t, s)
	damage(t, dir, positionName, asVersion2)

	s = mustOpen(t, rotating(dir, 0), nil)
	at, found := resumed(t, s, sinks.Lineage{{ID: queueA, First: 1}, {ID: started('B'), First: 9}}, 9)
	if !found || at.Next != 9 || !reflect.DeepEqual(at.Lineage, lineageA) {
		t.Errorf("got %+v, %v, want record 9 of %v", at, found, lineageA)
	}
	mustSend(t, s, batchOf(t, "5 F6-8"))
	mustSend(t, s, batch(started('B'), 9, 10))
	mustFinish(t, s)
	a := mustAudit(t, dir)
	if got := told(t, a); len(got) != 1 || got[0] != "1-10:{Filtered:3-4,6-8}" {
		t.Errorf("got %v, want 1-10:{Filtered:3-4,6-8}", got)
	}
}

// A lineage that is damaged makes the position useless: nobody knows what it is about.
func TestLineageDamaged(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, rotating(dir, 0), nil)
	mustSend(t, s, batch(queueA, 1, 3))
	mustClose(t, s)
	damage(t, dir, positionName, func(b []byte) []byte { b[slotsEnd+20] ^= 1; return b })
	s = mustOpen(t, rotating(dir, 0), nil)
	mustSend(t, s, batch(queueA, 4, 4))
	wantLines(t, "unnumbered", unnumbered(t, dir), records(queueA, 1, 3))
	wantLines(t, "exported", exported(t, dir), records(queueA, 4, 4))
}
