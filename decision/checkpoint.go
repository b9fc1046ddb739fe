package decision

import "time"

// ExportCheckpoint is the event type of a Checkpoint.
const ExportCheckpoint = "docket.export.checkpoint"

// Checkpoint is the record by which docket tells all sinks how far a file export goes.
// It is about finished files only. A copy in another place is an anchor for docket
// verify, if writers of the export cannot write to that place.
type Checkpoint struct {
	EventType string    `json:"eventType"` // ExportCheckpoint
	Sink      string    `json:"sink"`      // that writes the export
	Export    string    `json:"export"`    // SHA-256 of the first line of the manifest: which export it is
	Line      string    `json:"line"`      // SHA-256 of the newest line, which covers all before it
	LastSeq   uint64    `json:"lastSeq"`   // the last record that is accounted for up to that line
	Queue     string    `json:"queue"`     // UUID of the queue of LastSeq
	Time      time.Time `json:"time"`      // when the line was the newest
}
