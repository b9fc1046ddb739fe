package httpsink

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestCompression(t *testing.T) {
	records := make([]string, 500)
	for i := range records {
		records[i] = fmt.Sprintf(`{"n":%d,"pad":%q}`, i, strings.Repeat("decision", 100))
	}
	for compression, levels := range map[string][]int{compressGzip: {0, 1, 9}, compressZstd: {0, 1, 3, 9, 22}} {
		for _, level := range levels {
			t.Run(fmt.Sprint(compression, " ", level), func(t *testing.T) {
				r := newReceiver(t, (*httptest.Server).Start)
				s := openSink(t, r.URL, func(c *Config) { c.Compression, c.CompressionLevel = compression, level })
				b := batch(1, records...)
				if err := s.Send(t.Context(), b); err != nil {
					t.Fatal(err)
				}
				h := r.lastRequest(t).Header
				if got := h.Get("Content-Encoding"); got != compression {
					t.Errorf("Content-Encoding is %q, want %q", got, compression)
				}
				if got := len(r.lastBody(t)); got > b.Size()/20 {
					t.Errorf("%d bytes of records took %d, want a twentieth at most", b.Size(), got)
				}
				if got := len(r.accepted()); got != len(records) {
					t.Errorf("the receiver holds %d records, want %d", got, len(records))
				}
			})
		}
	}
}

// A compressor keeps nothing of one body for the next.
func TestCompressorIsReused(t *testing.T) {
	for _, compression := range []string{compressGzip, compressZstd} {
		c, err := newCompressor(compression, 0)
		if err != nil {
			t.Fatal(err)
		}
		random := rand.New(rand.NewPCG(1, 2))
		for i := range 20 {
			src := bytes.Repeat([]byte{byte(i), byte(random.Uint32())}, random.IntN(50_000))
			body, err := c(src)
			if err != nil {
				t.Fatal(err)
			}
			got, err := decompress(body, compression)
			if err != nil || !bytes.Equal(got, src) {
				t.Fatalf("%s: body %d of %d bytes came back as %d bytes, %v", compression, i, len(src), len(got), err)
			}
		}
	}
}
