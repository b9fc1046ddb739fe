package httpsink

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// FuzzReadAnswer reads answers as they are and compressed.
func FuzzReadAnswer(f *testing.F) {
	for _, coding := range []string{"", "gzip", "br"} {
		f.Add(coding, "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00")
	}
	f.Fuzz(func(t *testing.T, coding, text string) {
		const limit = 1000
		res := &http.Response{Header: http.Header{"Content-Encoding": {coding}}, Body: io.NopCloser(strings.NewReader(text))}
		if a := readAnswer(res, limit, time.Hour, func() {}); len(a.body) > limit {
			t.Errorf("%d bytes were kept, want at most %d", len(a.body), limit)
		}
	})
}
