package kubernetes

import (
	"encoding/json"
	"strconv"
	"testing"
)

// logLine is what these tests read of a line in the log of Gatekeeper.
type logLine struct {
	EventType  string `json:"event_type"`
	AuditID    string `json:"audit_id"`
	Resource   string `json:"resource_name"`
	Action     string `json:"constraint_action"`
	Violations string `json:"constraint_violations"`
	Duration   string `json:"duration"` // of an audit that is finished

	text string
}

// readLog returns the lines of a log that are decisions, or say something about an
// audit, in order.
func readLog(t *testing.T, file string) []logLine {
	t.Helper()
	var all []logLine
	for _, text := range wholeLines(t, file) {
		line := logLine{text: text}
		if json.Unmarshal([]byte(text), &line) == nil && line.EventType != "" {
			all = append(all, line)
		}
	}
	return all
}

// isDecision is whether the line is one that docket takes.
func (l logLine) isDecision() bool {
	return l.EventType == "violation" || l.EventType == "violation_audited"
}

// auditedRuns returns, by id, what the log says about the audits that are finished in
// it: how many violations it has, and how many there were by Gatekeeper's own count,
// which it gives where it knows of a constraint.
func auditedRuns(t *testing.T, log []logLine) map[string]auditRun {
	t.Helper()
	runs, finished := make(map[string]auditRun), make(map[string]auditRun)
	for _, line := range log {
		r := runs[line.AuditID]
		switch line.EventType {
		case "violation_audited":
			r.Violations++
		case "constraint_audited":
			n, err := strconv.Atoi(line.Violations)
			if err != nil {
				t.Fatalf("the total of a constraint: %v in %s", err, line.text)
			}
			if r.Reported != nil {
				n += *r.Reported
			}
			r.Reported = &n
		case "audit_finished":
			finished[line.AuditID] = r
		}
		runs[line.AuditID] = r
	}
	return finished
}

// judged is the run with what docket has to make of its counts. Of one without
// violations the log cannot say whether it has failed.
func (r auditRun) judged(id string) auditRun {
	r.EventType, r.ID = "docket.audit.run", id
	switch {
	case r.Violations == 0 && (r.Reported == nil || *r.Reported == 0):
		r.Reason = "NoRecords"
	case r.Reported != nil && *r.Reported == r.Violations:
		r.Reason, r.Complete = "CountsAgree", true
	default:
		r.Reason = "LinesLost"
	}
	return r
}
