package webhook

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/client/clienttest"
)

// An answer whose record is not durable leaves while the API server still waits for it, however long the client would.
func TestAnswerLeavesInTime(t *testing.T) {
	for query, want := range map[string]time.Duration{
		"": ackTimeout, "?timeout=x": ackTimeout, "?timeout=-1s": ackTimeout, "?timeout=10m": ackTimeout, "?timeout=1s": 950 * time.Millisecond, "?timeout=10s": 9500 * time.Millisecond,
	} {
		for _, mode := range modes[1:] {
			synctest.Test(t, func(t *testing.T) {
				e := clienttest.New()
				e.Hold()
				c := newClient(t, e, client.Config{Mode: mode})
				h := Log(answers(denied), c, Options{})
				r := httptest.NewRequest(http.MethodPost, "/v1/admit"+query, strings.NewReader(review))
				r.Header.Set("Content-Type", "application/json")
				w := httptest.NewRecorder()
				start := time.Now()
				h.ServeHTTP(w, r)
				if took := time.Since(start); took != want {
					t.Errorf("%q, %s: got an answer after %v, want %v", query, mode, took, want)
				}
				if status := map[client.Mode]int{client.Blocking: 200, client.BlockingStrict: 500}[mode]; w.Code != status {
					t.Errorf("%q, %s: got %d, want %d", query, mode, w.Code, status)
				}
				e.Release()
				stored(t, c, e)
				e.Close()
			})
		}
	}
}
