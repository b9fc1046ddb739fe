package exporter

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/docket-export/docket/sinks"
)

//go:generate go run ./internal/metricsgen ../docs/metrics.md

// Metric describes a metric of /metrics.
type Metric struct {
	Name   string
	Type   string // as Prometheus calls it: counter, gauge, histogram
	Help   string
	Labels []string
}

// Metrics lists docket's own metrics by name, without the metrics of the Go runtime and the
// process.
func Metrics() []Metric {
	list := newMetrics("").listed
	for _, d := range everyDesc {
		list = append(list, d.Metric)
	}
	slices.SortFunc(list, func(a, b Metric) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// metrics are those of /metrics. The counts of the ledger are read from it at each
// scrape, so that both always agree; only the others are counted here.
type metrics struct {
	registry *prometheus.Registry
	listed   []Metric // in registry

	commitSeconds prometheus.Observer
	commitRecords prometheus.Observer
	gapLines      *prometheus.CounterVec
	sendSeconds   *prometheus.HistogramVec
	sendFailures  *prometheus.CounterVec
	filterErrors  *prometheus.CounterVec
	deadLettered  *prometheus.CounterVec
	delays        *prometheus.HistogramVec

	mu           sync.Mutex
	transactions map[string]*transactions // by sink: they outlive a delivery that a reload replaces; guarded by mu
}

func newMetrics(version string) *metrics {
	m := &metrics{registry: prometheus.NewRegistry(), transactions: map[string]*transactions{}}
	m.commitSeconds = m.histogram("docket_commit_duration_seconds", "Time of one write and sync of the queue.",
		prometheus.ExponentialBuckets(50e-6, 2, 16)).WithLabelValues() // 50 us to 1.6 s
	m.commitRecords = m.histogram("docket_commit_records", "Records made durable by one commit.",
		prometheus.ExponentialBuckets(1, 4, 8)).WithLabelValues()
	m.gapLines = m.counter("docket_producer_gap_lines_total", "Numbers of lines that producers skipped. docket still stores these lines if they arrive later.", "source")
	m.sendSeconds = m.histogram("docket_send_duration_seconds", "Time of one attempt to deliver a batch.",
		prometheus.ExponentialBuckets(1e-3, 3, 10), "sink") // 1 ms to 20 s
	m.delays = m.histogram("docket_delivery_delay_seconds", "Time from the receipt of a record until the destination accepted it, without replayed and redriven records.",
		[]float64{0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 60, 300, 900, 3600, 14400, 86400}, "sink") // a day is as good as for ever
	m.sendFailures = m.counter("docket_send_failures_total", "Attempts to deliver a batch that failed.", "sink", "kind")
	m.filterErrors = m.counter("docket_filter_errors_total", "Records for which the filter failed. onError of the sink decides what happens to them.", "sink")
	m.deadLettered = m.counter("docket_records_dead_lettered_total", "Records that the destination rejected for good, and docket set aside.", "sink", "reason")
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "docket_build_info", Help: "Always 1; the version is in the label."}, []string{"version"})
	build.WithLabelValues(version).Set(1)
	m.add(build, Metric{"docket_build_info", "gauge", "Always 1; the version is in the label.", []string{"version"}})
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) counter(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	m.add(c, Metric{name, "counter", help, labels})
	return c
}

func (m *metrics) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	m.add(h, Metric{name, "histogram", help, labels})
	return h
}

func (m *metrics) add(c prometheus.Collector, about Metric) {
	m.registry.MustRegister(c)
	m.listed = append(m.listed, about)
}

// register adds the metrics that are read from e at every scrape.
func (m *metrics) register(e *Exporter) { m.registry.MustRegister(statusCollector{e}) }

// forget ends the series of a sink that is gone for good.
func (m *metrics) forget(sink string) {
	gone := prometheus.Labels{"sink": sink}
	m.sendSeconds.DeletePartialMatch(gone)
	m.delays.DeletePartialMatch(gone)
	for _, v := range []*prometheus.CounterVec{m.sendFailures, m.filterErrors, m.deadLettered} {
		v.DeletePartialMatch(gone)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.transactions, sink)
}

func (m *metrics) transactionsOf(sink string) *transactions {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.transactions[sink] == nil {
		m.transactions[sink] = &transactions{}
	}
	return m.transactions[sink]
}

func (m *metrics) committed(records int, took time.Duration) {
	m.commitSeconds.Observe(took.Seconds())
	m.commitRecords.Observe(float64(records))
}

func (m *metrics) producerGap(source string, lines uint64) {
	m.gapLines.WithLabelValues(source).Add(float64(lines))
}

// delivery returns the metrics of one sink.
func (m *metrics) delivery(sink string) *deliveryMetrics {
	return &deliveryMetrics{
		seconds:      m.sendSeconds.WithLabelValues(sink),
		failures:     m.sendFailures.MustCurryWith(prometheus.Labels{"sink": sink}),
		filterErrors: m.filterErrors.WithLabelValues(sink),
		deadLettered: m.deadLettered.MustCurryWith(prometheus.Labels{"sink": sink}),
		delays:       m.delays.WithLabelValues(sink),
		transactions: m.transactionsOf(sink),
		labels:       map[string]bool{},
	}
}

type deliveryMetrics struct {
	seconds      prometheus.Observer
	failures     *prometheus.CounterVec
	filterErrors prometheus.Counter
	deadLettered *prometheus.CounterVec
	delays       prometheus.Observer
	transactions *transactions

	mu     sync.Mutex
	labels map[string]bool // of deadLettered; guarded by mu

	// Records given up since the start. The ledger counts those given up for room.
	droppedRejected atomic.Uint64
}

func (m *deliveryMetrics) sent(took time.Duration) { m.seconds.Observe(took.Seconds()) }

// accepted counts how long items were under way that a destination has accepted now, unless they
// come late by an operator's wish.
func (m *deliveryMetrics) accepted(items []sinks.Item) {
	now := time.Now()
	for i := range items {
		if items[i].Late == sinks.OnTime {
			m.delays.Observe(max(0, now.Sub(items[i].Received).Seconds())) // the clock may have been set back
		}
	}
}

func (m *deliveryMetrics) failed(k sinks.Kind) { m.failures.WithLabelValues(k.String()).Inc() }

// rejected counts a record that was set aside, by the destination's code.
func (m *deliveryMetrics) rejected(status string) {
	m.mu.Lock()
	if !isLabel(status) || !m.labels[status] && len(m.labels) >= maxLabels {
		status = sinks.Rejected.String()
	} else {
		m.labels[status] = true
	}
	m.mu.Unlock()
	m.deadLettered.WithLabelValues(status).Inc()
}

// maxLabels bounds how many codes of one sink's destination have a series each: it
// is kept for ever, and the destination makes them up.
const maxLabels = 32

// maxLabel is longer than the longest code of Kafka. A longer text is no code.
const maxLabel = 48

// isLabel keeps a destination from making up labels: each is kept for ever.
func isLabel(status string) bool {
	return status != "" && len(status) <= maxLabel && strings.Trim(status, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == ""
}
