package httpsink

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
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

// A batch sent under the load of others keeps its bytes, and what it is told.
func TestOverlappingSends(t *testing.T) {
	t.Parallel()
	const senders, batches = 8, 20
	for _, compression := range []string{compressNone, compressGzip, compressZstd} {
		t.Run(compression, func(t *testing.T) {
			r := newReceiver(t, (*httptest.Server).Start)
			r.setAnswer(func(w http.ResponseWriter, req *http.Request) {
				_, records := r.read(req)
				if strings.HasPrefix(records[0], `{"refuse"`) {
					status(422, records[0])(w, req)
					return
				}
				r.keep("", records)
			})
			s := openSink(t, r.URL, func(c *Config) { c.InFlight, c.Compression = senders, compression })
			var wg sync.WaitGroup
			for n := range senders {
				wg.Go(func() {
					for i := range batches {
						first := uint64(n*1000 + i*2)
						if err := s.Send(t.Context(), batch(first, numbered(first, n), numbered(first+1, n))); err != nil {
							t.Errorf("Send = %v, want nil", err)
						}
						refused := fmt.Sprintf(`{"refuse":%d}`, first)
						err := s.Send(t.Context(), batch(first, refused))
						if err == nil || sinks.FailureOf(err).Said.Text != refused {
							t.Errorf("Send = %v, want it to be told %s", err, refused)
						}
					}
				})
			}
			wg.Wait()
			got := r.accepted()
			slices.Sort(got)
			var want []string
			for n := range senders {
				for i := range batches {
					first := uint64(n*1000 + i*2)
					want = append(want, numbered(first, n), numbered(first+1, n))
				}
			}
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("the receiver holds %d records, want the %d that were sent, unmixed", len(got), len(want))
			}
			// One for each sender, some that were dialled while another came free, and
			// see TestConnectionIsReused.
			if got, sends := r.connections(), 2*senders*batches; got > sends/4 {
				t.Errorf("%d connections were opened for %d requests, want them to be used again", got, sends)
			}
		})
	}
}

// numbered is a record of a length that depends on n, so that a body is not
// written over by another of the same shape.
func numbered(seq uint64, n int) string {
	return fmt.Sprintf(`{"seq":%d,"pad":%q}`, seq, strings.Repeat("x", n*5000))
}
