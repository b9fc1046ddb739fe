// Package decision is the record of one policy decision and its NDJSON form. It
// imports the standard library only, so that a producer which logs decisions
// links nothing else.
package decision

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/docket-export/docket/decision/rawjson"
)

// SchemaVersion is the version of Record's schema.
const SchemaVersion = 1

// Decision is what was decided about a request or a resource.
type Decision string

// The decisions.
const (
	Allow  Decision = "allow"
	Deny   Decision = "deny"
	Warn   Decision = "warn"
	DryRun Decision = "dryrun"
	// Error: the engine gave no answer, or none that the API server can use. The
	// failurePolicy of the webhook has decided.
	Error Decision = "error"
)

// Process is the part of a policy engine that decided.
type Process string

// The processes.
const (
	Admission Process = "admission"
	Audit     Process = "audit"
)

// The event types of Gatekeeper's export. The list is open: a record may carry
// another, or none, as the records around an audit run do.
const (
	ViolationAudited   = "violation_audited"
	ViolationAdmission = "violation_admission"
)

// AdmissionReview is the event type of what a webhook answered to one admission
// request, as ReviewRecord makes it.
const AdmissionReview = "admission_review"

// Record is one decision of a policy engine. Fields that Gatekeeper's export
// record has as well carry its names, so that what reads that export reads a
// Record; the fields from SchemaVersion on are docket's own.
//
// Every field is optional, and the zero value means that the producer did not say. A record may
// have members that are not listed here, and a consumer must accept them. A program that forwards
// records should forward their bytes, because decoding into a Record drops unknown members. New
// fields do not change the version; a changed or removed one does.
type Record struct {
	// ID groups what belongs together: the UID of the admission request, or the
	// audit run as the second it began in, RFC 3339 in UTC. Every violation of
	// one request or run carries the same ID, so it identifies no record.
	ID string `json:"id,omitempty"`
	// Details is what the policy reported beside its message, any JSON value.
	// Its shape is the policy's own.
	Details json.RawMessage `json:"details,omitempty"`
	// EventType says what kind of event this is, such as "violation_audited" or
	// "violation_admission". The records that begin and end an audit run of
	// Gatekeeper have none.
	EventType string `json:"eventType,omitempty"`
	// Group is the API group of the constraint.
	Group string `json:"group,omitempty"`
	// Version is the API version of the constraint.
	Version string `json:"version,omitempty"`
	// Kind is the kind of the constraint.
	Kind string `json:"kind,omitempty"`
	// Name is the name of the constraint.
	Name string `json:"name,omitempty"`
	// Namespace is the namespace of the constraint, normally empty: constraints
	// are cluster-scoped. The resource's is ResourceNamespace.
	Namespace string `json:"namespace,omitempty"`
	// Message is the policy's message for a person. Gatekeeper's audit cuts it
	// off at 256 bytes.
	Message string `json:"message,omitempty"`
	// EnforcementAction is the action of the constraint: "deny", "warn",
	// "dryrun", "scoped" or one that the operator named.
	EnforcementAction string `json:"enforcementAction,omitempty"`
	// EnforcementActions are the actions of a scoped constraint where it was
	// enforced.
	EnforcementActions []string `json:"enforcementActions,omitempty"`
	// ConstraintAnnotations are the annotations of the constraint, without
	// kubectl's last applied configuration.
	ConstraintAnnotations map[string]string `json:"constraintAnnotations,omitempty"`
	// ResourceGroup is the API group of the resource, empty for the core group.
	ResourceGroup string `json:"resourceGroup,omitempty"`
	// ResourceAPIVersion is the API version of the resource, without its group.
	ResourceAPIVersion string `json:"resourceAPIVersion,omitempty"`
	// ResourceKind is the kind of the resource.
	ResourceKind string `json:"resourceKind,omitempty"`
	// ResourceNamespace is the namespace of the resource, empty when it is
	// cluster-scoped.
	ResourceNamespace string `json:"resourceNamespace,omitempty"`
	// ResourceName is the name of the resource, empty when the API server had
	// still to generate it.
	ResourceName string `json:"resourceName,omitempty"`
	// ResourceLabels are the labels of the resource.
	ResourceLabels map[string]string `json:"resourceLabels,omitempty"`
	// Timestamp is when the decision was made. Gatekeeper's audit records have
	// none.
	Timestamp time.Time `json:"timestamp,omitzero"`
	// Operation is the operation of the admission request: "CREATE", "UPDATE",
	// "DELETE" or "CONNECT".
	Operation string `json:"operation,omitempty"`
	// RequestResource is the resource that the admission request named, in the
	// plural and before any conversion: "pods".
	RequestResource string `json:"requestResource,omitempty"`
	// RequestSubresource is the subresource that the admission request named,
	// such as "ephemeralcontainers".
	RequestSubresource string `json:"requestSubresource,omitempty"`
	// RequestUsername is the name of the user who made the admission request.
	RequestUsername string `json:"requestUsername,omitempty"`
	// RequestUserUID is the UID of that user.
	RequestUserUID string `json:"requestUserUID,omitempty"`
	// RequestUserGroups are the groups of that user.
	RequestUserGroups []string `json:"requestUserGroups,omitempty"`
	// DryRun tells whether the admission request was a dry run of the API
	// server. It says nothing of the enforcement action "dryrun".
	DryRun *bool `json:"dryRun,omitempty"`

	// SchemaVersion is the version of this schema, 1. A record without it was
	// not made by docket: one of Gatekeeper's export, for example.
	SchemaVersion int `json:"schemaVersion,omitempty"`
	// Decision is what this constraint or this webhook decided. A request is
	// refused when one of its records says "deny"; after "error" the failurePolicy
	// of the webhook decides.
	Decision Decision `json:"decision,omitempty"`
	// Process is the part of the policy engine that decided: its admission
	// webhook, or its periodic audit.
	Process Process `json:"process,omitempty"`
	// Cluster is the name of the cluster, as the operator configured it.
	Cluster string `json:"cluster,omitempty"`
	// Pod is the name of the pod that decided.
	Pod string `json:"pod,omitempty"`
	// AuditID identifies the audit run that found this, where Process is
	// "audit".
	AuditID string `json:"auditID,omitempty"`
	// RequestUID is the UID of the admission request, where Process is
	// "admission".
	RequestUID string `json:"requestUID,omitempty"`
	// Template is the name of the constraint template that holds the policy.
	Template string `json:"template,omitempty"`
	// ResourceUID is the UID of the resource, empty when it was still to be
	// created.
	ResourceUID string `json:"resourceUID,omitempty"`
	// Sequence numbers the decisions of one producing process, 1, 2, 3 and so
	// on, so that a gap shows a decision that was made and not logged. It may
	// exceed 2^53, so read it as an integer.
	Sequence uint64 `json:"sequence,omitempty"`

	// Code is the HTTP status code that the webhook's answer asks the API server
	// to return, or that the webhook itself returned where it gave no answer.
	Code int `json:"code,omitempty"`
	// Warnings are what the API server is asked to tell the user, whatever was
	// decided.
	Warnings []string `json:"warnings,omitempty"`
	// AuditAnnotations are what the webhook adds to the API server's audit log.
	AuditAnnotations map[string]string `json:"auditAnnotations,omitempty"`
	// PatchType is the type of the patch with which the webhook changes the object:
	// "JSONPatch".
	PatchType string `json:"patchType,omitempty"`
	// PatchBytes is the size of that patch.
	PatchBytes int `json:"patchBytes,omitempty"`
	// DurationSeconds is how long the webhook took to answer.
	DurationSeconds float64 `json:"durationSeconds,omitempty"`
	// WebhookPath is the path at which the webhook was called, without its query.
	WebhookPath string `json:"webhookPath,omitempty"`
	// Failure is why there is no decision, where Decision is "error".
	Failure string `json:"failure,omitempty"`
	// Object is the object of the admission request, where the operator asked for
	// it. It may hold secrets.
	Object json.RawMessage `json:"object,omitempty"`
	// OldObject is the object as it was before, where the operator asked for it. It
	// may hold secrets.
	OldObject json.RawMessage `json:"oldObject,omitempty"`
	// Patch is the webhook's patch, where the operator asked for it: the operations
	// of a JSON patch. It may hold secrets.
	Patch json.RawMessage `json:"patch,omitempty"`
	// Omitted names the fields that this record does not have because their values
	// were too large, and "patch" for one that is no JSON.
	Omitted []string `json:"omitted,omitempty"`
}

// Validate reports every field whose value the schema does not allow, as one
// error made with errors.Join. Text that is not UTF-8 is not among them:
// AppendLine mends it, a decision is worth more than a broken character.
func (r *Record) Validate() error {
	var errs []error
	if r.SchemaVersion != 0 && r.SchemaVersion != SchemaVersion {
		errs = append(errs, fmt.Errorf("schemaVersion: must be %d, not %d", SchemaVersion, r.SchemaVersion))
	}
	return errors.Join(append(errs, r.faults()...)...)
}

// faults is what Validate reports beside the schema version.
func (r *Record) faults() []error {
	var errs []error
	if !r.Decision.known() {
		errs = append(errs, fmt.Errorf("decision: must be allow, deny, warn, dryrun or error, not %q", r.Decision))
	}
	if !r.Process.known() {
		errs = append(errs, fmt.Errorf("process: must be admission or audit, not %q", r.Process))
	}
	for _, raw := range [...]struct {
		name  string
		value json.RawMessage
	}{{"details", r.Details}, {"object", r.Object}, {"oldObject", r.OldObject}, {"patch", r.Patch}} {
		if !validRaw(raw.value) {
			errs = append(errs, fmt.Errorf("%s: must be one JSON value in UTF-8", raw.name))
		}
	}
	if err := checkTimestamp(r.Timestamp); err != nil {
		errs = append(errs, fmt.Errorf("timestamp: %w", err))
	}
	if !finite(r.DurationSeconds) {
		errs = append(errs, fmt.Errorf("durationSeconds: must be a number, not %v", r.DurationSeconds))
	}
	return errs
}

func (d Decision) known() bool {
	switch d {
	case "", Allow, Deny, Warn, DryRun, Error:
		return true
	}
	return false
}

func (p Process) known() bool {
	switch p {
	case "", Admission, Audit:
		return true
	}
	return false
}

// validRaw reports whether raw can be written as it is, or is not set.
func validRaw(raw json.RawMessage) bool {
	return len(raw) == 0 || rawjson.KindOf(raw) != rawjson.Invalid
}

// finite reports whether JSON has a number for f.
func finite(f float64) bool { return f-f == 0 }

// checkTimestamp returns what keeps t from being written as RFC 3339 has it. A
// time that is not set is not written.
func checkTimestamp(t time.Time) error {
	if t.IsZero() {
		return nil
	}
	if _, err := t.AppendText(make([]byte, 0, len(time.RFC3339Nano))); err == nil {
		return nil
	}
	if y := t.Year(); y < 0 || y > 9999 {
		return fmt.Errorf("the year must be from 0 to 9999, not %d", y)
	}
	_, offset := t.Zone()
	return fmt.Errorf("the time zone must be less than 24h from UTC, not %v", time.Duration(offset)*time.Second)
}
