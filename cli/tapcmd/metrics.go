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
			Name: "docket_tap_not_reviews_total", Help: "POSTs of JSON that were no admission review. They passed, and leave a record of decision error.",
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
func (m *metrics) registerClient(c *client.Client) { m.registry.MustRegister(clientCollector{c}) }

// clientCollector turns the counts of a client into metrics, those of one moment. It
// implements prometheus.Collector.
type clientCollector struct{ c *client.Client }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// The metrics of clientCollector.
var (
	descLogged    = desc("docket_tap_records_total", "Records made.")
	descStored    = desc("docket_tap_records_stored_total", "Records that are on the disk of docket.")
	descRefused   = desc("docket_tap_records_refused_total", "Records that docket has refused.")
	descLost      = desc("docket_tap_records_lost_total", "Records for which there was no room. docket is told of them when there is a connection.", "decision")
	descBuffered  = desc("docket_tap_records_buffered", "Records that docket has not acknowledged yet.")
	descConnected = desc("docket_tap_connected", "1 while there is a connection to docket.")
)

func (clientCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descLogged, descStored, descRefused, descLost, descBuffered, descConnected} {
		to <- d
	}
}

func (k clientCollector) Collect(to chan<- prometheus.Metric) {
	s := k.c.Stats()
	count := func(d *prometheus.Desc, n uint64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	gauge := func(d *prometheus.Desc, n int) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n))
	}
	count(descLogged, s.Logged)
	count(descStored, s.Stored)
	count(descRefused, s.Refused)
	for _, d := range []decision.Decision{decision.Allow, decision.Deny, decision.Warn, decision.Error} {
		count(descLost, s.Lost[d], string(d))
	}
	gauge(descBuffered, s.Buffered)
	connected := 0
	if s.Connected {
		connected = 1
	}
	gauge(descConnected, connected)
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
	return fairconn.Serve(l, mux, func(err error) { log.Error("metrics endpoint ended", "error", err) }), nil
}
