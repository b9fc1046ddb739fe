package exporter

import (
	"time"

	"github.com/docket-export/docket/sources"
)

// Status is the document of /status: field names
// and nesting are fixed, because operators' scripts read them.
type Status struct {
	Time    time.Time      `json:"time"` // when the document was made
	Queue   QueueStatus    `json:"queue"`
	Ledger  Ledger         `json:"ledger"`
	Sources []SourceStatus `json:"sources"`
	Sinks   []SinkStatus   `json:"sinks"`
	Config  ConfigStatus   `json:"config"`
	// Metrics is the listener of metrics.address; nil without one.
	Metrics *MetricsStatus `json:"metrics,omitempty"`
}

// MetricsStatus describes the listener for the kubelet and Prometheus.
type MetricsStatus struct {
	State   State  `json:"state"`
	Reason  string `json:"reason,omitempty"`
	Address string `json:"address,omitempty"` // empty while it does not listen
}

// State is how a part of the exporter is doing.
type State string

// The states of every part.
const (
	Active   State = "Active"   // working
	Degraded State = "Degraded" // working on it: recovers by itself
	Error    State = "Error"    // an operator must act
)

// QueueStatus describes the queue.
type QueueStatus struct {
	ID       string     `json:"id"`
	FirstSeq uint64     `json:"firstSeq"` // first record still kept; lastSeq+1 when none is
	LastSeq  uint64     `json:"lastSeq"`  // 0 when nothing was ever stored
	Bytes    int64      `json:"bytes"`    // on disk, segments only
	MaxBytes int64      `json:"maxBytes"`
	State    State      `json:"state"`
	Reason   string     `json:"reason,omitempty"` // what is wrong and what to do about it
	Since    *time.Time `json:"since,omitempty"`  // when the disk began to fail
	// RecordsPerSecond is how many records were stored over the last minute.
	RecordsPerSecond float64 `json:"recordsPerSecond"`
	// FullInSeconds is when MaxBytes is reached at the rates of the last minute; nil while
	// the queue is not filling, and when it is full.
	FullInSeconds *float64 `json:"fullInSeconds,omitempty"`
}

// Ledger is the account of every line and record. For every sink, at every moment:
// stored = delivered + filtered + deadLettered + dropped + corrupt + pending; and
// received = stored + refused + duplicate. Received is counted where lines are read
// and the rest where their fate is decided: a difference is a line that docket has
// lost. Losses that producers report do not count here.
type Ledger struct {
	Received  uint64                `json:"received"`
	Stored    uint64                `json:"stored"`
	Duplicate uint64                `json:"duplicate"`
	Refused   map[string]uint64     `json:"refused"` // by reason
	Lost      map[string]uint64     `json:"lost"`    // by decision: never received, as producers report
	Corrupt   uint64                `json:"corrupt"`
	Sinks     map[string]SinkLedger `json:"sinks"`
}

// SinkLedger is one sink's account of the stored records.
type SinkLedger struct {
	Delivered    uint64 `json:"delivered"`
	Filtered     uint64 `json:"filtered"`
	DeadLettered uint64 `json:"deadLettered"`
	Dropped      uint64 `json:"dropped"`
	Corrupt      uint64 `json:"corrupt"`
	Pending      uint64 `json:"pending"`
}

// SourceStatus describes one source.
type SourceStatus struct {
	Name        string `json:"name"`
	State       State  `json:"state"`
	Reason      string `json:"reason,omitempty"`
	Address     string `json:"address,omitempty"` // where producers connect; empty: nowhere, or not now
	Connections int    `json:"connections"`
	// Records is how many lines were received since the queue began: stored, duplicate and
	// refused.
	Records          uint64            `json:"records"`
	RecordsPerSecond float64           `json:"recordsPerSecond"`     // received, over the last minute
	LastRecord       *time.Time        `json:"lastRecord,omitempty"` // when the last stored one was received; nil: none since the start
	LastRun          *sources.AuditRun `json:"lastRun,omitempty"`    // of an audit that the source reads; nil: none since the start
	Lost             uint64            `json:"lost,omitempty"`       // gaps the source knows of since the start; see sources.Report
	LostLines        uint64            `json:"lostLines,omitempty"`  // of that, as far as they are known
	LostBytes        uint64            `json:"lostBytes,omitempty"`  // at least, of what is not known in lines
	// PassedOver is how much the source has read and made no record of since the start, by
	// reason; see sources.Report.
	PassedOver map[string]uint64 `json:"passedOver,omitempty"`
	// RefusedDropped is how many refused lines are counted and not kept since the start,
	// because they came too fast or could not be written.
	RefusedDropped uint64 `json:"refusedDropped,omitempty"`

	audits sources.Audits // for the metrics
}

// SinkStatus describes one sink and its delivery.
type SinkStatus struct {
	Name          string     `json:"name"`
	State         State      `json:"state"`
	Reason        string     `json:"reason,omitempty"`        // kind of the failure that is going on
	LastError     string     `json:"lastError,omitempty"`     // kept after recovery
	LastErrorTime *time.Time `json:"lastErrorTime,omitempty"` // when LastError was met last
	Since         *time.Time `json:"since,omitempty"`         // when the present state began
	Cursor        uint64     `json:"cursor"`                  // seq of the next record to deliver
	LagSeconds    float64    `json:"lagSeconds"`              // age of the oldest pending record, 0 when there is none
	// RecordsPerSecond is how many records were delivered over the last minute.
	RecordsPerSecond float64    `json:"recordsPerSecond"`
	Attempts         int        `json:"attempts"`              // that have failed in a row, of what fails now
	NextAttempt      *time.Time `json:"nextAttempt,omitempty"` // after a failed one; nil: none is waited for
	// Pending is how many records the sink must still get; for a removed sink, only the
	// records up to its last one. The ledger counts all stored records.
	Pending     uint64 `json:"pending"`
	DeadLetters int    `json:"deadLetters"` // that are kept now
	// Transactions is of a sink that writes in transactions; nil for others.
	Transactions *TransactionStatus `json:"transactions,omitempty"`
}

// TransactionStatus describes the transactions of a sink since the start.
type TransactionStatus struct {
	Committed uint64 `json:"committed"`
	Aborted   uint64 `json:"aborted"`
	Fenced    uint64 `json:"fenced"` // times that another docket has taken over
	// Position is the seq of the first record that the destination does not have; 0: not
	// known yet.
	Position uint64 `json:"position"`
	// Durable is the cursor as the queue has it on disk: where the sink continues after a crash if
	// the destination has no position; 0: not written since the start.
	Durable uint64 `json:"durable"`
}
