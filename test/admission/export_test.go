package admission

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/docket-export/docket/test/dockettest"
)

// record is what is read of a line of the export.
type record struct {
	EventType, Decision                 string
	RequestUsername, Operation          string
	RequestResource, RequestSubresource string
	ResourceNamespace, ResourceName     string
	DryRun                              *bool
	Message                             string
	Warnings                            []string
	RequestUID, WebhookPath, Failure    string
	PatchType                           string
	PatchBytes, Code                    int
	AuditAnnotations                    map[string]string
	DurationSeconds                     float64
	Name, EnforcementAction             string         // of a constraint
	Lost                                map[string]int // of a docket.loss
}

// brokenOff is the failure of a review whose answer the engine has ended in the middle: the
// API server gets no more of it.
const brokenOff = "the answer was broken off"

// verdict is what the record says of a review.
func (r record) verdict() verdict {
	v := verdict{
		user:      r.RequestUsername,
		operation: r.Operation,
		resource:  r.RequestResource,
		namespace: r.ResourceNamespace,
		name:      r.ResourceName,
		dryRun:    r.DryRun != nil && *r.DryRun,
		decision:  r.Decision,
		warnings:  strings.Join(r.Warnings, "\n"),
	}
	if r.RequestSubresource != "" {
		v.resource += "/" + r.RequestSubresource
	}
	switch {
	case r.Decision == denied:
		v.message = r.Message
	case r.Failure == brokenOff:
		v.decision = unanswered
	}
	return v
}

// configuration is one of a docket that takes records at the socket, and exports them to
// files.
func configuration(d *dockettest.Docket, socket string) string {
	return d.Config(dockettest.UnixSource("webhook", socket))
}

// export reads the records of a file export, those of one reading after those of the one
// before.
type export struct {
	directory string
	read      int // lines
}

// next returns the records that were added and docket has not made itself.
func (e *export) next(t *testing.T) []record {
	t.Helper()
	lines := dockettest.Exported(t, e.directory)[e.read:]
	e.read += len(lines)
	var records []record
	for _, line := range lines {
		var r record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("read a record: %v in %.300s", err, line)
		}
		records = append(records, r)
	}
	return records
}

// lossEvent is the event type of the records in which a client tells of its losses.
const lossEvent = "docket.loss"

// account is what records say together.
func account(records []record) (verdicts tally, losses map[string]int) {
	verdicts, losses = make(tally), make(map[string]int)
	for _, r := range records {
		if r.EventType != lossEvent {
			verdicts[r.verdict()]++
		}
		for decision, n := range r.Lost {
			losses[decision] += n
		}
	}
	return verdicts, losses
}
