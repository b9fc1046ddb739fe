package exporter

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/docket-export/docket/sinks"
)

// metrics are those of /metrics. The counts of the ledger are read from it at each
// scrape, so that both always agree; only the others are counted here.
type metrics struct {
	registry      *prometheus.Registry
	commitSeconds prometheus.Histogram
	commitRecords prometheus.Histogram
	gapLines      *prometheus.CounterVec
	sendSeconds   *prometheus.HistogramVec
	sendFailures  *prometheus.CounterVec
	filterErrors  *prometheus.CounterVec
	deadLettered  *prometheus.CounterVec
}

func newMetrics(version string) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		commitSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "docket_commit_duration_seconds", Help: "Time of one write and sync of the queue.",
			Buckets: prometheus.ExponentialBuckets(50e-6, 2, 16), // 50 us to 1.6 s
		}),
		commitRecords: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "docket_commit_records", Help: "Records made durable by one commit.",
			Buckets: prometheus.ExponentialBuckets(1, 4, 8),
		}),
		gapLines: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "docket_producer_gap_lines_total", Help: "Lines that producers skipped: their numbers were not received. They are stored should they come after all.",
		}, []string{"source"}),
		sendSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "docket_send_duration_seconds", Help: "Time of one attempt to deliver a batch.",
			Buckets: prometheus.ExponentialBuckets(1e-3, 3, 10), // 1 ms to 20 s
		}, []string{"sink"}),
		sendFailures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "docket_send_failures_total", Help: "Attempts to deliver a batch that failed.",
		}, []string{"sink", "kind"}),
		filterErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "docket_filter_errors_total", Help: "Records that the filter could not judge. What becomes of them is onError of the sink.",
		}, []string{"sink"}),
		deadLettered: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "docket_records_dead_lettered_total", Help: "Records set aside because the destination will never take them.",
		}, []string{"sink", "reason"}),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "docket_build_info", Help: "Always 1; the version is in the label.",
		ConstLabels: prometheus.Labels{"version": version},
	})
	build.Set(1)
	m.registry.MustRegister(m.commitSeconds, m.commitRecords, m.gapLines, m.sendSeconds, m.sendFailures, m.filterErrors, m.deadLettered, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// register adds the metrics that are read from e at every scrape.
func (m *metrics) register(e *Exporter) { m.registry.MustRegister(ledgerCollector{e}) }

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
		labels:       map[string]bool{},
	}
}

type deliveryMetrics struct {
	seconds      prometheus.Observer
	failures     *prometheus.CounterVec
	filterErrors prometheus.Counter
	deadLettered *prometheus.CounterVec

	mu     sync.Mutex
	labels map[string]bool // of deadLettered; guarded by mu

	// Records given up since the start. The ledger counts those given up for room.
	droppedRejected, droppedPurged atomic.Uint64
}

func (m *deliveryMetrics) sent(took time.Duration) { m.seconds.Observe(took.Seconds()) }

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

// ledgerCollector turns the status into metrics: one view of it for each scrape, so
// that the metrics of one scrape balance. It implements prometheus.Collector.
type ledgerCollector struct{ e *Exporter }

// The metrics of ledgerCollector.
var (
	descReceived    = desc("docket_records_received_total", "Lines whose fate is decided.", "source")
	descRefused     = desc("docket_records_refused_total", "Lines that were not stored.", "source", "reason")
	descDuplicate   = desc("docket_records_duplicate_total", "Lines recognised as stored before.", "source")
	descLost        = desc("docket_records_lost_total", "Records that never arrived, as their producers report.", "source", "decision")
	descSourceLost  = desc("docket_source_lost_total", "Gaps the source knows of since the start: files or runs that vanished before they were read, lines the engine left out.", "source")
	descRefusedDrop = desc("docket_refused_dropped_total", "Refused lines that are counted and not kept since the start: they came too fast, or could not be written.", "source")
	descStored      = desc("docket_records_stored_total", "Records in the queue since it began.")
	descCorrupt     = desc("docket_records_corrupt_total", "Records lost to damage on disk.")
	descDelivered   = desc("docket_records_delivered_total", "Records that the destination has accepted.", "sink")
	descFiltered    = desc("docket_records_filtered_total", "Records not meant for the sink.", "sink")
	descDropped     = desc("docket_records_dropped_total", "Records given up before the sink had them.", "sink", "reason")
	descLetters     = desc("docket_dead_letters", "Records in the sink's dead letters.", "sink")
	descLetterBytes = desc("docket_dead_letter_bytes", "Size of the sink's dead letters.", "sink")
	descLetterLimit = desc("docket_dead_letter_limit_bytes", "deadLetters.maxBytes of the sink.", "sink")
	descPending     = desc("docket_pending_records", "Records that the sink has yet to deliver.", "sink")
	descLag         = desc("docket_delivery_lag_seconds", "Age of the oldest pending record.", "sink")
	descSinkState   = desc("docket_sink_state", "1 for the state that the sink is in.", "sink", "state")
	descQueueState  = desc("docket_queue_state", "1 for the state that the queue is in.", "state")
	descBytes       = desc("docket_queue_bytes", "Size of the queue's segments.")
	descFree        = desc("docket_queue_free_bytes", "Room for new records until the queue is full. What every sink has passed counts as free.")
	descLimit       = desc("docket_queue_limit_bytes", "queue.maxBytes.")
	everyDesc       = []*prometheus.Desc{descReceived, descRefused, descDuplicate, descLost, descSourceLost, descRefusedDrop, descStored, descCorrupt, descDelivered, descFiltered, descDropped, descLetters, descLetterBytes, descLetterLimit, descPending, descLag, descSinkState, descQueueState, descBytes, descFree, descLimit}
	everyState      = []State{Active, Degraded, Error}
)

// Why records are dropped.
const (
	droppedQueueFull = "QueueFull" // queue.whenFull is DropOldest
	droppedRejected  = "Rejected"  // the sink's onReject is Drop
	droppedPurged    = "Purged"    // from the dead letters
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// Describe implements prometheus.Collector.
func (c ledgerCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range everyDesc {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c ledgerCollector) Collect(ch chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	s, stats := c.e.view()
	for source, t := range stats.Sources {
		for reason, n := range t.Refused {
			counter(descRefused, n, source, reason)
		}
		for decision, n := range t.Lost {
			counter(descLost, n, source, decision)
		}
		counter(descReceived, t.Received, source)
		counter(descDuplicate, t.Duplicate, source)
	}
	for _, source := range s.Sources {
		counter(descSourceLost, source.Lost, source.Name)
		counter(descRefusedDrop, source.RefusedDropped, source.Name)
	}
	counter(descStored, s.Ledger.Stored)
	counter(descCorrupt, s.Ledger.Corrupt)
	gauge(descBytes, float64(s.Queue.Bytes))
	gauge(descFree, float64(stats.Free))
	gauge(descLimit, float64(s.Queue.MaxBytes))
	for _, state := range everyState {
		gauge(descQueueState, oneIf(s.Queue.State == state), string(state))
	}
	for name, l := range s.Ledger.Sinks {
		counter(descDelivered, l.Delivered, name)
		counter(descFiltered, l.Filtered, name)
		gauge(descPending, float64(l.Pending), name)
	}
	for _, d := range c.e.parts().deliveries {
		counter(descDropped, stats.Cursors[d.cfg.Name].ForRoom, d.cfg.Name, droppedQueueFull)
		counter(descDropped, d.metrics.droppedRejected.Load(), d.cfg.Name, droppedRejected)
		counter(descDropped, d.metrics.droppedPurged.Load(), d.cfg.Name, droppedPurged)
		letters := d.letters.stats()
		gauge(descLetters, float64(letters.Letters), d.cfg.Name)
		gauge(descLetterBytes, float64(letters.Bytes), d.cfg.Name)
		gauge(descLetterLimit, float64(d.cfg.DeadLetters.MaxBytes), d.cfg.Name)
	}
	for _, sink := range s.Sinks {
		gauge(descLag, sink.LagSeconds, sink.Name)
		for _, state := range everyState {
			gauge(descSinkState, oneIf(sink.State == state), sink.Name, string(state))
		}
	}
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
