package exporter

import (
	"bytes"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	// maxScrapes is how many scrapes an endpoint makes at a time: each holds the lock of the
	// queue for a moment, and records come first.
	maxScrapes = 2
	// maxUnread is how many answers wait to be read: one who does not read is no reason to
	// turn away Prometheus.
	maxUnread = 8
)

// scrapes answers with metrics. The answer is made in memory, so that the time that a client
// takes to read it is not that of a scrape.
type scrapes struct {
	gather http.Handler

	mu     sync.Mutex
	unread []*http.ResponseController // the oldest first; guarded by mu
}

func newScrapes(registry prometheus.Gatherer) *scrapes {
	return &scrapes{gather: promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes})}
}

func (s *scrapes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := &heldAnswer{header: w.Header(), status: http.StatusOK}
	s.gather.ServeHTTP(a, r)
	c := http.NewResponseController(w)
	s.begin(c)
	defer s.end(c)
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body.Bytes()) // the client has gone, or had to make room
}

// begin gives c a place, if need be that of the one that has been read for longest, which is
// cut off.
func (s *scrapes) begin(c *http.ResponseController) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.unread) == maxUnread {
		_ = s.unread[0].SetWriteDeadline(time.Now()) // a connection always takes one
		s.unread = slices.Delete(s.unread, 0, 1)
	}
	s.unread = append(s.unread, c)
}

func (s *scrapes) end(c *http.ResponseController) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unread = slices.DeleteFunc(s.unread, func(o *http.ResponseController) bool { return o == c })
}

// heldAnswer is an answer in memory.
type heldAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *heldAnswer) Header() http.Header { return a.header }

func (a *heldAnswer) WriteHeader(status int) { a.status = status }

func (a *heldAnswer) Write(b []byte) (int, error) { return a.body.Write(b) }
