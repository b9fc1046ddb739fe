package queue

import (
	"bytes"
	"context"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"

	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/exporter/queue/state"
)

// Whatever bytes are read, decoding neither fails hard nor gives out more than
// they hold.
func FuzzParseHeader(f *testing.F) {
	c := &Chunk{Source: "s", Identity: "uid:7", Producer: "p", Position: 3, Records: []byte("{}\n"), Count: 1, Refused: []Tally{{Name: "InvalidJSON", Count: 2}}, Lost: []Tally{{Name: "deny", Count: 5e9}}}
	b := encode(c)
	segment.Place(b, 1, segment.HeaderSize, 1)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := segment.ParseHeader(b)
		if err != nil {
			return
		}
		if h.HeaderLen > len(b) || h.PayloadLen > MaxPayload || h.Count < 0 {
			t.Errorf("header %+v from %d bytes", h, len(b))
		}
		h.EachTally(func([]byte, uint64) {}, func([]byte, uint64) {})
		_ = h.Decided()
		if h.CheckPayload(b) == nil && h.HeaderLen+h.PayloadLen > len(b) {
			t.Errorf("payload of %d bytes held by %d", h.PayloadLen, len(b))
		}
	})
}

func FuzzDecodeSlot(f *testing.F) {
	f.Add(state.EncodeSlot(uuid.New(), 7, map[string]Account{"siem": {Next: 8, Delivered: 7}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		id, generation, accounts, ok := state.DecodeSlot(b)
		if ok && !bytes.Equal(state.EncodeSlot(id, generation, accounts)[state.CursorsHead:], b[state.CursorsHead:le.Uint32(b[44:])]) && len(accounts) == int(le.Uint32(b[40:])) {
			// Equal accounts may stand in another order; their number must agree.
			_, _, again, ok := state.DecodeSlot(state.EncodeSlot(id, generation, accounts))
			if !ok || len(again) != len(accounts) {
				t.Errorf("slot does not survive a round trip: %+v", accounts)
			}
		}
	})
}

// Whatever a segment holds, the queue opens, takes a record and gives it out.
func FuzzRecovery(f *testing.F) {
	name := segment.Name{FirstSeq: 1, Epoch: 1}
	seg := segment.EncodeHeader(segment.Header{Queue: uuid.New()}, name)
	for n := range 3 {
		b := encode(chunk(`{"n":1}`, `{"n":2}`))
		segment.Place(b, 1, int64(len(seg)), uint64(2*n+1))
		seg = append(seg, b...)
	}
	f.Add(seg)
	f.Add(seg[:len(seg)-5])
	f.Fuzz(func(t *testing.T, content []byte) {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, name.String()), content, 0o600))
		q, err := Open(Options{Directory: dir})
		if err != nil {
			return // an unknown format version is refused
		}
		defer closeQueue(t, q)
		store(t, q, chunk(`{"mine":true}`))
		c := cursorOf(t, q, "a")
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for {
			records, err := c.Next(ctx, Limits{Records: 100, Bytes: 1 << 20})
			if err != nil {
				t.Fatalf("my record was not delivered: %v", err)
			}
			if last := records[len(records)-1]; last.Seq == q.LastSeq() {
				if string(last.Data) != `{"mine":true}` {
					t.Errorf("last record: got %s", last.Data)
				}
				return
			}
		}
	})
}

// encode returns the frame of c, which is not placed yet.
func encode(c *Chunk) []byte {
	return segment.AppendFrame(nil, c, crc32.Checksum(c.Records, castagnoli))
}
