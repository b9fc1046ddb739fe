package state

import (
	"bytes"
	"maps"
	"math"
	"testing"

	"github.com/google/uuid"
)

// What decodes from any bytes survives a round trip.
func FuzzDecodeSlot(f *testing.F) {
	f.Add(encodeSlot(uuid.New(), 7, map[string]Account{"siem": {Next: 8, Delivered: 7}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		id, generation, accounts, ok := decodeSlot(b)
		if ok && !bytes.Equal(encodeSlot(id, generation, accounts)[cursorsHead:], b[cursorsHead:le.Uint32(b[44:])]) && len(accounts) == int(le.Uint32(b[40:])) {
			// Equal accounts may stand in another order; their number must agree.
			_, _, again, ok := decodeSlot(encodeSlot(id, generation, accounts))
			if !ok || len(again) != len(accounts) {
				t.Errorf("slot does not survive a round trip: %+v", accounts)
			}
		}
	})
}

// Whatever a slot holds, it decodes to accounts that encode to what decodes to them.
func FuzzSlotRoundTrip(f *testing.F) {
	f.Add("siem", uint64(7), uint64(8), uint64(5), uint64(2))
	f.Fuzz(func(t *testing.T, name string, generation, next, delivered, corrupt uint64) {
		if name == "" || len(name) > math.MaxUint8 {
			return
		}
		want := map[string]Account{name: {Next: next, Delivered: delivered, Corrupt: corrupt, Replayed: int64(generation ^ next)}, name[:len(name)/2] + "2": {Next: 1}}
		id := uuid.New()
		b := append(encodeSlot(id, generation, want), make([]byte, 100)...)
		gotID, g, got, ok := decodeSlot(b)
		if !ok || gotID != id || g != generation || len(got) != len(want) || got[name] != want[name] && len(want) == 2 {
			t.Errorf("got %v, %d, %+v, %v; want %d, %+v", gotID, g, got, ok, generation, want)
		}
		b[le.Uint32(b[44:])/2] ^= 1
		if _, _, _, ok := decodeSlot(b); ok {
			t.Error("a slot with a flipped bit is valid")
		}
	})
}

// A slot of the docket before has accounts without the time of a replay.
func TestSlotOfVersion3(t *testing.T) {
	want := map[string]Account{"siem": {Next: 8, Delivered: 7, ReplayTo: 12}, "bus": {Next: 1}}
	b := append(make([]byte, 0, slotSize), encodeSlot(uuid.New(), 7, want)[:cursorsHead]...)
	for _, name := range []string{"bus", "siem"} {
		b = append(append(b, byte(len(name))), name...)
		a := want[name]
		for _, v := range a.fields(new(uint64)) {
			b = le.AppendUint64(b, *v)
		}
	}
	le.PutUint32(b[8:], 3)
	le.PutUint32(b[44:], uint32(len(b)))
	le.PutUint32(b[12:], slotCRC(b))
	_, generation, got, ok := decodeSlot(b[:slotSize])
	if !ok || generation != 7 || !maps.Equal(got, want) {
		t.Errorf("got %+v of generation %d, %v; want %+v of 7", got, generation, ok, want)
	}
	if err := checkSlotVersion(b[:slotSize], "cursors"); err != nil {
		t.Errorf("got %v, want version 3 to be read", err)
	}
}
