package decision

// The event types of docket's own records about audits.
const (
	AuditRun      = "docket.audit.run"      // what became of one run: a Run
	AuditOpened   = "docket.audit.opened"   // a violation that the run before did not have
	AuditResolved = "docket.audit.resolved" // a violation that is gone
	AuditSnapshot = "docket.audit.snapshot" // a violation that stands, repeated now and then
	ExportGap     = "docket.export.gap"     // decisions that are known to have been lost
)

// Run is the last record of one run of an audit, made when everything that the run has written was
// read, or by the audit itself. It says whether the violations before it are all violations of the
// run.
type Run struct {
	EventType string `json:"eventType"` // AuditRun
	ID        string `json:"id"`        // of the run, as its violations carry it; may be empty where the run's file told none
	// Complete: the run was seen from its start to its end, with all its records. A run without
	// any violation is complete only if the audit itself says so (AllReviewed): to a reader of
	// its output, a failed audit looks the same.
	Complete bool `json:"complete"`
	// Reason is one of the Run reasons.
	Reason RunReason `json:"reason"`
	// Violations is how many were read, or stored.
	Violations uint64 `json:"violations"`
	// Reported is how many there were by the engine's own count, where it gives one.
	Reported *uint64 `json:"reported,omitempty"`
	// Previous is how many violations the last run before had that was complete.
	Previous *uint64 `json:"previousViolations,omitempty"`
	// Constraints are the violations by constraint, sorted.
	Constraints []RunConstraint `json:"constraints,omitempty"`
	// Invalid is how many lines could not be read as a record of the run.
	Invalid uint64 `json:"invalid,omitempty"`
	// Snapshot: the standing violations precede this record, one by one.
	Snapshot bool `json:"snapshot,omitempty"`
	// Opened and Resolved count those records of this run, where changes are reported.
	Opened   *uint64 `json:"opened,omitempty"`
	Resolved *uint64 `json:"resolved,omitempty"`
	// File is where the run was read, relative to the directory of the source.
	File string `json:"file,omitempty"`
	// Detail says more, for a person.
	Detail string `json:"detail,omitempty"`
}

// RunConstraint counts the violations of one constraint in a run.
type RunConstraint struct {
	Group      string  `json:"group,omitempty"`
	Kind       string  `json:"kind"`
	Name       string  `json:"name"`
	Violations uint64  `json:"violations"`
	Reported   *uint64 `json:"reported,omitempty"` // by the engine's own count
}

// RunReason says why a run is complete, or is not.
type RunReason string

// The reasons. Only the first three go with a complete run.
const (
	AllReviewed RunReason = "AllReviewed" // the audit itself says so: all objects were reviewed, and every violation is stored
	StartToEnd  RunReason = "StartToEnd"  // the start, at least one violation and the end were read
	CountsAgree RunReason = "CountsAgree" // and the engine's own totals are those that were read
	NoRecords   RunReason = "NoRecords"   // a start and an end with nothing between: no violations, or an audit that failed
	NoStart     RunReason = "NoStart"     // the beginning is missing
	NoEnd       RunReason = "NoEnd"       // the end is missing from a finished file
	Abandoned   RunReason = "Abandoned"   // the engine ended before the run did
	Damaged     RunReason = "Damaged"     // lines could not be read as records
	Vanished    RunReason = "Vanished"    // it was there, and was deleted before it could be read
	LinesLost   RunReason = "LinesLost"   // fewer violations were read than the engine has counted
	// The other reasons belong to an audit that makes its own record.
	NotListed     RunReason = "NotListed"     // some kinds, or some objects of a kind, could not be listed
	PolicyFailed  RunReason = "PolicyFailed"  // a policy could not be loaded, or could not decide on an object
	PolicyChanged RunReason = "PolicyChanged" // a policy was added, changed or removed while the run was under way
)
