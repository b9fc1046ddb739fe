package decisionlog

import (
	"encoding/json"
	"log/slog"
	"math"
	"reflect"
	"time"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/decision/rawjson"
)

// setField sets the field of r that has the JSON name key. It is false, and r is
// as it was, when there is none or v does not fit it. The field details is not
// set here.
func setField(r *decision.Record, key string, v slog.Value) bool {
	if field := textField(r, key); field != nil {
		return setText(field, v)
	}
	switch key {
	case "decision":
		return setChoice(&r.Decision, v, decision.Allow, decision.Deny, decision.Warn, decision.DryRun, decision.Error)
	case "process":
		return setChoice(&r.Process, v, decision.Admission, decision.Audit)
	case "enforcementActions":
		return setAny(&r.EnforcementActions, v)
	case "requestUserGroups":
		return setAny(&r.RequestUserGroups, v)
	case "constraintAnnotations":
		return setAny(&r.ConstraintAnnotations, v)
	case "resourceLabels":
		return setAny(&r.ResourceLabels, v)
	case "timestamp":
		return setTime(&r.Timestamp, v)
	case "dryRun":
		return setBool(&r.DryRun, v)
	case "sequence":
		return setNumber(&r.Sequence, v)
	case "code":
		return setInt(&r.Code, v)
	case "patchBytes":
		return setInt(&r.PatchBytes, v)
	case "durationSeconds":
		return setSeconds(&r.DurationSeconds, v)
	case "warnings":
		return setAny(&r.Warnings, v)
	case "omitted":
		return setAny(&r.Omitted, v)
	case "auditAnnotations":
		return setAny(&r.AuditAnnotations, v)
	case "object":
		return setJSON(&r.Object, v)
	case "oldObject":
		return setJSON(&r.OldObject, v)
	case "patch":
		return setJSON(&r.Patch, v)
	case "schemaVersion":
		version := uint64(0)
		return setNumber(&version, v) && version == decision.SchemaVersion // which every record has
	}
	return false
}

// textField returns the field of that JSON name if it is free text, else nil.
func textField(r *decision.Record, key string) *string {
	switch key {
	case "id":
		return &r.ID
	case "eventType":
		return &r.EventType
	case "group":
		return &r.Group
	case "version":
		return &r.Version
	case "kind":
		return &r.Kind
	case "name":
		return &r.Name
	case "namespace":
		return &r.Namespace
	case "message":
		return &r.Message
	case "enforcementAction":
		return &r.EnforcementAction
	case "resourceGroup":
		return &r.ResourceGroup
	case "resourceAPIVersion":
		return &r.ResourceAPIVersion
	case "resourceKind":
		return &r.ResourceKind
	case "resourceNamespace":
		return &r.ResourceNamespace
	case "resourceName":
		return &r.ResourceName
	case "operation":
		return &r.Operation
	case "requestResource":
		return &r.RequestResource
	case "requestSubresource":
		return &r.RequestSubresource
	case "requestUsername":
		return &r.RequestUsername
	case "requestUserUID":
		return &r.RequestUserUID
	case "cluster":
		return &r.Cluster
	case "pod":
		return &r.Pod
	case "auditID":
		return &r.AuditID
	case "requestUID":
		return &r.RequestUID
	case "template":
		return &r.Template
	case "resourceUID":
		return &r.ResourceUID
	case "patchType":
		return &r.PatchType
	case "webhookPath":
		return &r.WebhookPath
	case "failure":
		return &r.Failure
	}
	return nil
}

// setText takes a string, and a value whose type is made of one, such as the
// operation of an admission request.
func setText(field *string, v slog.Value) bool {
	if v.Kind() == slog.KindString {
		*field = v.String()
		return true
	}
	if text := reflect.ValueOf(v.Any()); text.Kind() == reflect.String {
		*field = text.String()
		return true
	}
	return false
}

func setChoice[T ~string](field *T, v slog.Value, choices ...T) bool {
	var text string
	if !setText(&text, v) {
		return false
	}
	for _, c := range choices {
		if text == string(c) {
			*field = c
			return true
		}
	}
	return false
}

func setAny[T any](field *T, v slog.Value) bool {
	value, ok := v.Any().(T)
	if ok {
		*field = value
	}
	return ok
}

func setTime(field *time.Time, v slog.Value) bool {
	if v.Kind() != slog.KindTime || !representable(v.Time()) {
		return false
	}
	*field = v.Time().Round(0)
	return true
}

// representable reports whether t can be written as RFC 3339 wants it: with a
// year of four digits and an offset of less than a day.
func representable(t time.Time) bool {
	var text [len(time.RFC3339Nano)]byte // enough, so that nothing is allocated
	_, err := t.AppendText(text[:0])
	return err == nil
}

func setBool(field **bool, v slog.Value) bool {
	if v.Kind() != slog.KindBool {
		return setAny(field, v)
	}
	value := v.Bool()
	*field = &value
	return true
}

// setJSON takes what is JSON already: a record with anything else could not be written.
func setJSON(field *json.RawMessage, v slog.Value) bool {
	value, ok := v.Any().(json.RawMessage)
	if !ok || rawjson.KindOf(value) == rawjson.Invalid {
		return false
	}
	*field = value
	return true
}

func setInt(field *int, v slog.Value) bool {
	if v.Kind() != slog.KindInt64 || int64(int(v.Int64())) != v.Int64() {
		return false
	}
	*field = int(v.Int64())
	return true
}

// setSeconds takes a number of seconds, and a duration.
func setSeconds(field *float64, v slog.Value) bool {
	var seconds float64
	switch v.Kind() {
	case slog.KindFloat64:
		seconds = v.Float64()
	case slog.KindDuration:
		seconds = v.Duration().Seconds()
	default:
		return false
	}
	if math.IsNaN(seconds) || math.IsInf(seconds, 0) { // JSON has no such numbers
		return false
	}
	*field = seconds
	return true
}

func setNumber(field *uint64, v slog.Value) bool {
	switch {
	case v.Kind() == slog.KindUint64:
		*field = v.Uint64()
	case v.Kind() == slog.KindInt64 && v.Int64() >= 0:
		*field = uint64(v.Int64())
	default:
		return false
	}
	return true
}
