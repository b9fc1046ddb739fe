package exporter

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// statusCollector turns the status into metrics: one view of it for each scrape, so
// that the metrics of one scrape balance. What it costs grows with the sources and sinks
// alone. It implements prometheus.Collector.
type statusCollector struct{ e *Exporter }

// desc is a metric of statusCollector.
type desc struct {
	Metric
	*prometheus.Desc
	kind prometheus.ValueType
}

func describe(name, help string, labels ...string) desc {
	d := desc{Metric{name, "gauge", help, labels}, prometheus.NewDesc(name, help, labels, nil), prometheus.GaugeValue}
	if strings.HasSuffix(name, "_total") {
		d.Type, d.kind = "counter", prometheus.CounterValue
	}
	return d
}

// The metrics of statusCollector.
var (
	descReceived     = describe("docket_records_received_total", "Lines that were stored, refused or recognised as duplicates.", "source")
	descSourceStored = describe("docket_source_records_stored_total", "Records of the source stored since the queue began: received minus refused and duplicate.", "source")
	descRefused      = describe("docket_records_refused_total", "Lines that docket did not accept.", "source", "reason")
	descDuplicate    = describe("docket_records_duplicate_total", "Lines that were sent again and not stored twice.", "source")
	descLost         = describe("docket_records_lost_total", "Records that producers report as lost.", "source", "decision")
	descPassedOver   = describe("docket_source_passed_over_total", "Lines, events and files that the source read and made no record of since the start.", "source", "reason")
	descSourceLost   = describe("docket_source_lost_total", "Gaps that the source found since the start: files or runs that vanished before they were read.", "source")
	descRefusedDrop  = describe("docket_refused_dropped_total", "Refused lines that were counted and not kept since the start, because they came too fast or could not be written.", "source")
	descSourceState  = describe("docket_source_state", "1 for the current state of the source.", "source", "state")
	descConnections  = describe("docket_source_connections", "Producers that are connected now.", "source")
	descLastRecord   = describe("docket_source_last_record_timestamp_seconds", "When the last stored record was received. Absent before the first since the start.", "source")
	descAudits       = describe("docket_audit_runs_total", "Runs of an audit that the source read since the start. The result is Complete when the run is proven complete, else Incomplete.", "source", "result")
	descAuditGood    = describe("docket_audit_last_run_complete", "1 when the last run of the audit is proven complete, else 0. Absent before the first run since the start.", "source")
	descAuditTime    = describe("docket_audit_last_run_timestamp_seconds", "When the last run of the audit was read to its end. Absent before the first run since the start.", "source")

	descStored     = describe("docket_records_stored_total", "Records stored since the queue began.")
	descCorrupt    = describe("docket_records_corrupt_total", "Records lost to damage on disk.")
	descQueueState = describe("docket_queue_state", "1 for the current state of the queue.", "state")
	descBytes      = describe("docket_queue_bytes", "Size of the queue's segments.")
	descFree       = describe("docket_queue_free_bytes", "Room for new records until the queue is full. Records that every sink has count as free.")
	descLimit      = describe("docket_queue_limit_bytes", "Limit queue.maxBytes of the queue.")

	descDelivered   = describe("docket_records_delivered_total", "Records that the destination accepted.", "sink")
	descFiltered    = describe("docket_records_filtered_total", "Records not meant for the sink: left out by its filter, or stored before it began.", "sink")
	descDropped     = describe("docket_records_dropped_total", "Records given up before the sink had them.", "sink", "reason")
	descLetters     = describe("docket_dead_letters", "Records in the sink's dead letters.", "sink")
	descLetterBytes = describe("docket_dead_letter_bytes", "Size of the sink's dead letters.", "sink")
	descLetterLimit = describe("docket_dead_letter_limit_bytes", "Limit deadLetters.maxBytes of the sink.", "sink")
	descPending     = describe("docket_pending_records", "Records that the sink must still deliver.", "sink")
	descLag         = describe("docket_delivery_lag_seconds", "Age of the oldest pending record.", "sink")
	descCursor      = describe("docket_sink_cursor", "Position of the sink in the queue: number of the next record to deliver.", "sink")
	descPosition    = describe("docket_sink_position", "Number of the first record that the destination does not have. Only for a sink that writes in transactions, after the destination has answered.", "sink")
	descTransaction = describe("docket_sink_transactions_total", "Transactions of the sink since the start: committed, aborted, or fenced by a docket that started later.", "sink", "outcome")
	descSinkState   = describe("docket_sink_state", "1 for the current state of the sink.", "sink", "state")

	descReloads      = describe("docket_config_reload_total", "Configurations after the first that took effect (Applied) or were invalid (Failed).", "result")
	descConfigLoaded = describe("docket_config_reload_success_timestamp_seconds", "When the configuration in force took effect.")
	descConfigState  = describe("docket_config_state", "1 for the current state: Error while the file is invalid, Degraded while a part of it waits for a restart.", "state")
	descGeneration   = describe("docket_config_generation", "Configurations that took effect since the start.")

	everyDesc = []desc{
		descReceived, descSourceStored, descRefused, descDuplicate, descLost, descPassedOver, descSourceLost, descRefusedDrop,
		descSourceState, descConnections, descLastRecord, descAudits, descAuditGood, descAuditTime,
		descStored, descCorrupt, descQueueState, descBytes, descFree, descLimit,
		descDelivered, descFiltered, descDropped, descLetters, descLetterBytes, descLetterLimit, descPending, descLag, descCursor, descPosition, descTransaction, descSinkState,
		descReloads, descConfigLoaded, descConfigState, descGeneration,
	}
	everyState = []State{Active, Degraded, Error}
)

// Why records are dropped.
const (
	droppedQueueFull = "QueueFull" // queue.whenFull is DropOldest
	droppedRejected  = "Rejected"  // the sink's onReject is Drop
)

// Describe implements prometheus.Collector.
func (c statusCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range everyDesc {
		ch <- d.Desc
	}
}

// Collect implements prometheus.Collector.
func (c statusCollector) Collect(ch chan<- prometheus.Metric) {
	s, stats := c.e.view()
	to := into{ch}
	for source, t := range stats.Sources {
		for reason, n := range t.Refused {
			to.count(descRefused, n, source, reason)
		}
		for decision, n := range t.Lost {
			to.count(descLost, n, source, decision)
		}
		to.count(descReceived, t.Received, source)
		to.count(descSourceStored, t.Stored, source)
		to.count(descDuplicate, t.Duplicate, source)
	}
	for _, source := range s.Sources {
		to.source(source)
	}
	to.count(descStored, s.Ledger.Stored)
	to.count(descCorrupt, s.Ledger.Corrupt)
	to.count(descBytes, uint64(s.Queue.Bytes))
	to.put(descFree, float64(stats.Free))
	to.count(descLimit, uint64(s.Queue.MaxBytes))
	to.state(descQueueState, s.Queue.State)
	for name, l := range s.Ledger.Sinks {
		to.count(descDelivered, l.Delivered, name)
		to.count(descFiltered, l.Filtered, name)
		to.count(descPending, l.Pending, name)
	}
	for _, d := range c.e.parts().deliveries {
		to.count(descDropped, stats.Cursors[d.cfg.Name].ForRoom, d.cfg.Name, droppedQueueFull)
		to.count(descDropped, d.metrics.droppedRejected.Load(), d.cfg.Name, droppedRejected)
		letters := d.letters.stats()
		to.count(descLetters, uint64(letters.Letters), d.cfg.Name)
		to.count(descLetterBytes, uint64(letters.Bytes), d.cfg.Name)
		to.count(descLetterLimit, uint64(d.cfg.DeadLetters.MaxBytes), d.cfg.Name)
	}
	for _, sink := range s.Sinks {
		to.put(descLag, sink.LagSeconds, sink.Name)
		to.state(descSinkState, sink.State, sink.Name)
		to.count(descCursor, sink.Cursor, sink.Name)
		if t := sink.Transactions; t != nil {
			to.transactions(sink.Name, t)
		}
	}
	config, applied, failed := c.e.loads.snapshot()
	to.count(descReloads, applied, "Applied")
	to.count(descReloads, failed, "Failed")
	to.put(descConfigLoaded, seconds(config.Loaded))
	to.state(descConfigState, config.State)
	to.count(descGeneration, uint64(config.Generation))
}

// into is where a scrape puts its metrics.
type into struct{ ch chan<- prometheus.Metric }

func (to into) put(d desc, v float64, labels ...string) {
	to.ch <- prometheus.MustNewConstMetric(d.Desc, d.kind, v, labels...)
}

func (to into) count(d desc, n uint64, labels ...string) { to.put(d, float64(n), labels...) }

// state puts a series for each state there is; that of the one is 1.
func (to into) state(d desc, is State, labels ...string) {
	for _, state := range everyState {
		to.count(d, oneIf(is == state), append(labels, string(state))...)
	}
}

func (to into) source(s SourceStatus) {
	to.count(descSourceLost, s.Lost, s.Name)
	for reason, n := range s.PassedOver {
		to.count(descPassedOver, n, s.Name, reason)
	}
	to.count(descRefusedDrop, s.RefusedDropped, s.Name)
	to.state(descSourceState, s.State, s.Name)
	to.count(descConnections, uint64(s.Connections), s.Name)
	if s.LastRecord != nil {
		to.put(descLastRecord, seconds(*s.LastRecord), s.Name)
	}
	if last := s.audits.Last; last != nil {
		to.count(descAudits, s.audits.Complete, s.Name, "Complete")
		to.count(descAudits, s.audits.Incomplete, s.Name, "Incomplete")
		to.count(descAuditGood, oneIf(last.Complete), s.Name)
		to.put(descAuditTime, seconds(last.Time), s.Name)
	}
}

func (to into) transactions(sink string, t *TransactionStatus) {
	to.count(descTransaction, t.Committed, sink, "committed")
	to.count(descTransaction, t.Aborted, sink, "aborted")
	to.count(descTransaction, t.Fenced, sink, "fenced")
	if t.Position > 0 {
		to.count(descPosition, t.Position, sink)
	}
}

// seconds is t as Prometheus has times, exact to the microsecond.
func seconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

func oneIf(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
