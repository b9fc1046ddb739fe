package segment

import (
	"hash/crc32"
	"testing"
)

// Whatever bytes are read, decoding neither fails hard nor gives out more than
// they hold.
func FuzzParseHeader(f *testing.F) {
	c := &Chunk{Source: "s", Identity: "uid:7", Producer: "p", Position: 3, Records: []byte("{}\n"), Count: 1, Refused: []Tally{{Name: "InvalidJSON", Count: 2}}, Lost: []Tally{{Name: "deny", Count: 5e9}}}
	b := AppendFrame(nil, c, crc32.Checksum(c.Records, castagnoli))
	Place(b, 1, HeaderSize, 1)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := ParseHeader(b)
		if err != nil {
			return
		}
		if h.HeaderLen > len(b) || h.PayloadLen > maxPayload || h.Count < 0 {
			t.Errorf("header %+v from %d bytes", h, len(b))
		}
		h.EachTally(func([]byte, uint64) {}, func([]byte, uint64) {})
		_ = h.Decided()
		if h.CheckPayload(b) == nil && h.HeaderLen+h.PayloadLen > len(b) {
			t.Errorf("payload of %d bytes held by %d", h.PayloadLen, len(b))
		}
	})
}
