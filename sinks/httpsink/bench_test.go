package httpsink

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// BenchmarkSend posts batches of 500 records of 1 KB to a receiver that reads
// and forgets them. Its allocations and half of its time are the receiver's.
func BenchmarkSend(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		io.Copy(io.Discard, req.Body)
		switch req.URL.Path {
		case "/otlp":
			w.Header().Set("Content-Type", "application/x-protobuf")
		case "/loki":
			w.WriteHeader(http.StatusNoContent)
		case "/elasticsearchBulk":
			io.WriteString(w, `{"errors":false,"items":[`+strings.Repeat(`{"create":{"status":201}},`, 499)+`{"create":{"status":201}}]}`)
		}
	}))
	b.Cleanup(server.Close)
	records := make([]string, 500)
	for i := range records {
		records[i] = fmt.Sprintf(`{"eventType":"violation","n":%d,"pad":%q}`, i, strings.Repeat("x", 980))
	}
	for _, compression := range []string{compressNone, compressGzip, compressZstd} {
		for _, encoding := range []string{"ndjson", "otlp", "loki", "elasticsearchBulk"} {
			if compression != compressNone && encoding != "ndjson" {
				continue
			}
			b.Run(encoding+" "+compression, func(b *testing.B) {
				s := openSink(b, server.URL+"/"+encoding, func(c *Config) { c.Encoding, c.Compression = encoding, compression })
				batch := batch(1, records...)
				b.SetBytes(int64(batch.Size()))
				b.ReportAllocs()
				for b.Loop() {
					if err := s.Send(b.Context(), batch); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
