package decision_test

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/decision"
)

// full is a record with every field set, and fullLine is how it is written. The
// text of Details must come through as it is: white space between its tokens
// aside, a number beyond float64, escapes and member order stay.
func full() decision.Record {
	dryRun := false
	return decision.Record{
		ID:                    "b55fd242-f19c-4289-8690-4f9eff3c54ca",
		Details:               json.RawMessage(`{ "z": 12345678901234567890, "a": [1.10, null], "note": "\u003cb\u003e & <i> \/" }`),
		EventType:             decision.ViolationAdmission,
		Group:                 "constraints.gatekeeper.sh",
		Version:               "v1beta1",
		Kind:                  "K8sAllowedRepos",
		Name:                  "repos",
		Namespace:             "policies",
		Message:               "image <docker.example.test/x> is not allowed",
		EnforcementAction:     "scoped",
		EnforcementActions:    []string{"deny", "warn"},
		ConstraintAnnotations: map[string]string{"owner": "platform", "id": "POL-0001"},
		ResourceGroup:         "apps",
		ResourceAPIVersion:    "v1",
		ResourceKind:          "Deployment",
		ResourceNamespace:     "shop",
		ResourceName:          "cart",
		ResourceLabels:        map[string]string{"app": "cart"},
		Timestamp:             time.Date(2026, 1, 5, 10, 4, 7, 123456789, time.UTC),
		Operation:             "CREATE",
		RequestResource:       "deployments",
		RequestSubresource:    "scale",
		RequestUsername:       "alice@example.test",
		RequestUserUID:        "u-17",
		RequestUserGroups:     []string{"developers", "system:authenticated"},
		DryRun:                &dryRun,
		SchemaVersion:         1,
		Decision:              decision.Deny,
		Process:               decision.Admission,
		Cluster:               "prod-eu-1",
		Pod:                   "webhook-7d9f",
		AuditID:               "2026-01-05T10:04:00Z",
		RequestUID:            "b55fd242-f19c-4289-8690-4f9eff3c54ca",
		Template:              "k8sallowedrepos",
		ResourceUID:           "36a1f389-53bd-4ac0-b8fc-7c1dc6dd19f8",
		Sequence:              18446744073709551615,
		Code:                  403,
		Warnings:              []string{"latest is not a version", "<second>"},
		AuditAnnotations:      map[string]string{"team": "platform", "risk": "high"},
		PatchType:             "JSONPatch",
		PatchBytes:            66,
		DurationSeconds:       0.012345,
		WebhookPath:           "/v1/admit",
		Failure:               "the response is not JSON",
		Object:                json.RawMessage(`{"kind": "Deployment", "spec": {"replicas": 1.0}}`),
		OldObject:             json.RawMessage(`null`),
		Patch:                 json.RawMessage(`[ {"op":"add","path":"/metadata/labels/team","value":"\u003ca>"} ]`),
		Omitted:               []string{"object"},
	}
}

//go:embed testdata/full.ndjson
var fullLine string

func TestAppendLine(t *testing.T) {
	tests := map[string]struct {
		record decision.Record
		want   string
	}{
		"full":    {full(), fullLine},
		"minimal": {decision.Record{}, `{"schemaVersion":1}` + "\n"},
		"line breaks": {
			decision.Record{Message: "a\nb\r\u2028", Details: json.RawMessage("[\n1,\r\n2\n]")},
			`{"details":[1,2],"message":"a\nb\r\u2028","schemaVersion":1}` + "\n",
		},
		"broken text": {
			decision.Record{Message: "a\xffb"},
			`{"message":"a\ufffdb","schemaVersion":1}` + "\n",
		},
		"null details": {
			decision.Record{Details: json.RawMessage("null")},
			`{"details":null,"schemaVersion":1}` + "\n",
		},
		"record of another version": {
			decision.Record{SchemaVersion: 9, ID: "x"},
			`{"id":"x","schemaVersion":1}` + "\n",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := tt.record.AppendLine([]byte("before\n"))
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != "before\n"+tt.want {
				t.Errorf("got  %q\nwant %q", got, "before\n"+tt.want)
			}
		})
	}
}

// What is written reads back as the same record.
func TestLineRoundTrip(t *testing.T) {
	want := full()
	var got decision.Record
	if err := json.Unmarshal([]byte(fullLine), &got); err != nil {
		t.Fatal(err)
	}
	for _, raw := range []*json.RawMessage{&want.Details, &want.Object, &want.OldObject, &want.Patch} {
		var compact bytes.Buffer
		if err := json.Compact(&compact, *raw); err != nil {
			t.Fatal(err)
		}
		*raw = compact.Bytes()
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestValidate(t *testing.T) {
	tests := map[string]struct {
		record decision.Record
		want   []string // one a problem, in order; none: valid
	}{
		"zero value":        {decision.Record{}, nil},
		"full":              {full(), nil},
		"other version":     {decision.Record{SchemaVersion: 2}, []string{"schemaVersion: must be 1, not 2"}},
		"negative version":  {decision.Record{SchemaVersion: -1}, []string{"schemaVersion: must be 1, not -1"}},
		"decision":          {decision.Record{Decision: "Deny"}, []string{`decision: must be allow, deny, warn, dryrun or error, not "Deny"`}},
		"process":           {decision.Record{Process: "webhook"}, []string{`process: must be admission or audit, not "webhook"`}},
		"details not JSON":  {decision.Record{Details: json.RawMessage(`{"a":`)}, []string{"details: must be one JSON value in UTF-8"}},
		"two details":       {decision.Record{Details: json.RawMessage(`{} {}`)}, []string{"details: must be one JSON value in UTF-8"}},
		"details not UTF-8": {decision.Record{Details: json.RawMessage("\"\xff\"")}, []string{"details: must be one JSON value in UTF-8"}},
		"object not JSON":   {decision.Record{Object: json.RawMessage(`{`)}, []string{"object: must be one JSON value in UTF-8"}},
		"old not JSON":      {decision.Record{OldObject: json.RawMessage(`{]`)}, []string{"oldObject: must be one JSON value in UTF-8"}},
		"patch not JSON":    {decision.Record{Patch: json.RawMessage(`W10=`)}, []string{"patch: must be one JSON value in UTF-8"}},
		"duration":          {decision.Record{DurationSeconds: math.NaN()}, []string{"durationSeconds: must be a number, not NaN"}},
		"endless duration":  {decision.Record{DurationSeconds: math.Inf(-1)}, []string{"durationSeconds: must be a number, not -Inf"}},
		"error":             {decision.Record{Decision: decision.Error}, nil},
		"year":              {decision.Record{Timestamp: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}, []string{"timestamp: the year must be from 0 to 9999, not 10000"}},
		"year before 0":     {decision.Record{Timestamp: time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)}, []string{"timestamp: the year must be from 0 to 9999, not -1"}},
		"zone":              {decision.Record{Timestamp: time.Date(2026, 1, 1, 0, 0, 0, 0, time.FixedZone("", -24*60*60))}, []string{"timestamp: the time zone must be less than 24h from UTC, not -24h0m0s"}},
		"zone, not set":     {decision.Record{Timestamp: time.Time{}.In(time.FixedZone("", 24*60*60))}, nil},
		"all at once": {
			decision.Record{SchemaVersion: 3, Decision: "x", Process: "y", Details: json.RawMessage("z")},
			[]string{
				"schemaVersion: must be 1, not 3",
				`decision: must be allow, deny, warn, dryrun or error, not "x"`,
				`process: must be admission or audit, not "y"`,
				"details: must be one JSON value in UTF-8",
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got string
			if err := tt.record.Validate(); err != nil {
				got = err.Error()
			}
			if want := strings.Join(tt.want, "\n"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}
