package exporter

import "time"

// Status is the document of /status (DESIGN.md, "Admin endpoint"): field names
// and nesting are fixed, because operators' scripts read them.
type Status struct {
	Queue   QueueStatus    `json:"queue"`
	Ledger  Ledger         `json:"ledger"`
	Sources []SourceStatus `json:"sources"`
	Sinks   []SinkStatus   `json:"sinks"`
	Config  ConfigStatus   `json:"config"`
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
}

// Ledger is the account of every line and record. For every sink, at every
// moment: stored = delivered + filtered + deadLettered + dropped + corrupt +
// pending; and received = stored + refused + duplicate. Received is counted where
// lines are read and the rest where their fate is decided: a difference is a line that
// docket has lost. Losses that producers report have no part in that.
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
	Connections int    `json:"connections"`
	Lost        uint64 `json:"lost,omitempty"` // gaps the source knows of since the start; see sources.Report
	// RefusedDropped is how many refused lines are counted and not kept since the start,
	// because they came too fast or could not be written.
	RefusedDropped uint64 `json:"refusedDropped,omitempty"`
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
}

// ConfigStatus describes the configuration in force.
type ConfigStatus struct {
	Generation int    `json:"generation"` // configurations that took effect since the start
	State      State  `json:"state"`
	LastError  string `json:"lastError"`
}
