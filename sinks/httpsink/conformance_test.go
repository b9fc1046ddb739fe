package httpsink

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/sinktest"
)

func TestConformance(t *testing.T) {
	for _, d := range dialects() {
		t.Run(d.encoding+" "+d.compression, func(t *testing.T) {
			sinktest.Run(t, func(t *testing.T) sinktest.Subject { return subject(t, d) })
		})
	}
}

// subject is a receiver of the dialect d.
func subject(t *testing.T, d dialect) sinktest.Subject {
	const maxRecord = 64 << 10
	r := newReceiver(t, (*httptest.Server).Start)
	r.decode = d.decode
	accept := func(w http.ResponseWriter, req *http.Request) {
		body, records := r.read(req)
		if slices.ContainsFunc(records, func(record string) bool { return len(record) > maxRecord }) {
			status(http.StatusRequestEntityTooLarge, "too large")(w, req)
			return
		}
		r.keep(body, records)
		d.head(w)
		if d.answer != nil {
			io.WriteString(w, d.answer(len(records)))
		}
	}
	r.setAnswer(accept)
	fault := func(name string, kind sinks.Kind, after time.Duration, answer http.HandlerFunc) sinktest.Fault {
		return sinktest.Fault{Name: name, Kind: kind, After: after, Start: func(*testing.T) func() {
			r.setAnswer(answer)
			return func() { r.setAnswer(accept) }
		}}
	}
	return sinktest.Subject{
		Open: func(t *testing.T) sinks.Sink {
			return openSink(t, r.URL, func(c *Config) { c.Encoding, c.Compression = d.encoding, d.compression })
		},
		Accepted:  func(*testing.T) []string { return r.accepted() },
		MaxRecord: maxRecord,
		Faults: []sinktest.Fault{
			fault("503", sinks.Transient, 0, status(503, "busy")),
			fault("429", sinks.Throttled, 7*time.Second, status(429, "", "Retry-After", "7")),
			fault("429 until a date", sinks.Throttled, 0, func(w http.ResponseWriter, req *http.Request) {
				status(429, "", "Retry-After", time.Now().Add(time.Minute).UTC().Format(http.TimeFormat))(w, req)
			}),
			fault("401", sinks.Misconfigured, 0, status(401, "")),
			fault("422", sinks.Rejected, 0, status(422, "bad field")),
			fault("connection cut", sinks.Transient, 0, cut),
			fault("answer lost", sinks.Transient, 0, func(w http.ResponseWriter, req *http.Request) {
				r.accept(req)
				cut(w, req)
			}),
			fault("answer cut", sinks.Transient, 0, func(w http.ResponseWriter, req *http.Request) {
				r.accept(req)
				code := http.StatusOK
				if !d.answerDecides() {
					code = http.StatusServiceUnavailable // a 200 would be an acceptance
				}
				w.Header().Set("Content-Length", "1000")
				if d.contentType != "" {
					w.Header().Set("Content-Type", d.contentType)
				}
				w.WriteHeader(code)
				io.WriteString(w, `{"errors":false,"items":[`)
				w.(http.Flusher).Flush()
				cut(w, req)
			}),
		},
		Hang: func(t *testing.T) (<-chan struct{}, func()) {
			reached, released := make(chan struct{}), make(chan struct{})
			var once sync.Once
			r.setAnswer(func(w http.ResponseWriter, req *http.Request) {
				accept(w, req)
				once.Do(func() { close(reached) })
				select {
				case <-released:
				case <-req.Context().Done():
				}
			})
			release := sync.OnceFunc(func() { close(released) })
			t.Cleanup(release)
			return reached, release
		},
	}
}
