package tapcmd

import (
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/docket-export/docket/cli/versioncmd"
	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/internal/fairconn"
	"github.com/docket-export/docket/webhook"
	"github.com/docket-export/docket/webhook/serving"
	"github.com/docket-export/docket/webhook/tap"
)

// metrics are those of /metrics. No label has text of a request in it.
type metrics struct {
	registry   *prometheus.Registry
	requests   map[tap.Result]prometheus.Counter
	seconds    prometheus.Histogram
	reviews    map[decision.Decision]prometheus.Counter
	notReviews prometheus.Counter
}

func newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: make(map[tap.Result]prometheus.Counter),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "docket_tap_request_duration_seconds", Help: "Time from the header of a request to the end of its answer.",
			Buckets: prometheus.ExponentialBuckets(0.5e-3, 2, 17), // 0.5 ms to 33 s
		}),
		reviews: make(map[decision.Decision]prometheus.Counter),
		notReviews: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "docket_tap_not_reviews_total", Help: "POSTs of JSON that were not admission reviews. tap passed them on, and recorded each with decision error.",
		}),
	}
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "docket_tap_requests_total", Help: "Requests, by how they ended."}, []string{"result"})
	for _, result := range tap.Results() {
		m.requests[result] = requests.WithLabelValues(string(result))
	}
	reviews := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "docket_tap_reviews_total", Help: "Admission reviews, recorded or not, by what the engine decided."}, []string{"decision"})
	for _, d := range []decision.Decision{decision.Allow, decision.Deny, decision.Warn, decision.Error} {
		m.reviews[d] = reviews.WithLabelValues(string(d))
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "docket_build_info", Help: "Always 1; the version is in the label.",
		ConstLabels: prometheus.Labels{"version": versioncmd.This().Version},
	})
	build.Set(1)
	m.registry.MustRegister(requests, m.seconds, reviews, m.notReviews, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) ended(result tap.Result, took time.Duration) {
	m.requests[result].Inc()
	m.seconds.Observe(took.Seconds())
}

func (m *metrics) reviewed(o webhook.Outcome) {
	if count, ok := m.reviews[o.Decision]; ok {
		count.Inc()
	}
	if o.NotReview {
		m.notReviews.Inc()
	}
}

// registerClient adds what c counts, which is nil when nothing is recorded.
func (m *metrics) registerClient(c *client.Client) {
	count := func(name, help string, labels prometheus.Labels, value func(client.Stats) uint64) {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels},
			func() float64 { return float64(value(c.Stats())) }))
	}
	gauge := func(name, help string, value func(client.Stats) int) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { return float64(value(c.Stats())) }))
	}
	count("docket_tap_records_total", "Records made.", nil, func(s client.Stats) uint64 { return s.Logged })
	count("docket_tap_records_stored_total", "Records that are on the disk of docket.", nil, func(s client.Stats) uint64 { return s.Stored })
	count("docket_tap_records_refused_total", "Records that docket has refused.", nil, func(s client.Stats) uint64 { return s.Refused })
	for d := range m.reviews {
		count("docket_tap_records_lost_total", "Records lost because the buffer was full. tap reports them to docket when it is connected.",
			prometheus.Labels{"decision": string(d)}, func(s client.Stats) uint64 { return s.Lost[d] })
	}
	gauge("docket_tap_records_buffered", "Records that docket has not acknowledged yet.", func(s client.Stats) int { return s.Buffered })
	gauge("docket_tap_connected", "1 while there is a connection to docket.", func(s client.Stats) int {
		if s.Connected {
			return 1
		}
		return 0
	})
}

// serveMetrics answers at address until the returned function is called.
func serveMetrics(address string, server *serving.Server, m *metrics, log *slog.Logger) (stop func(), err error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", probe(server.Live))
	mux.HandleFunc("GET /readyz", probe(server.Ready))
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	return fairconn.Serve(l, nil, mux, func(err error) { log.Error("metrics endpoint ended", "error", err) }), nil
}
