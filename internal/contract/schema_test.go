package contract

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/docket-export/docket/decision"
)

const schemaFile = "../../decision/record.schema.json"

func TestSchemaAcceptsRecords(t *testing.T) {
	schema := compile(t)
	fullLine := string(read(t, "../../decision/testdata/full.ndjson"))
	var full decision.Record
	if err := json.Unmarshal([]byte(fullLine), &full); err != nil {
		t.Fatal(err)
	}
	for v, i := reflect.ValueOf(full), 0; i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Errorf("field %s is not set, so the schema is not tested on it", v.Type().Field(i).Name)
		}
	}
	tests := map[string]string{
		"full":            fullLine,
		"minimal":         `{"schemaVersion":1}`,
		"empty":           `{}`,
		"unknown members": `{"schemaVersion":1,"requestAnnotations":{"a":[1]},"x":null}`,
	}
	for name, line := range tests {
		t.Run(name, func(t *testing.T) {
			if err := schema.Validate(parse(t, line)); err != nil {
				t.Error(err)
			}
		})
	}
}

// Gatekeeper's own export is valid against docket's schema, and reads into a
// Record: what docket's schema adds, it adds beside the names of Gatekeeper.
func TestSchemaAcceptsGatekeeperExport(t *testing.T) {
	schema := compile(t)
	tests := map[string]struct {
		records int
		check   func(decision.Record) bool // some record must pass it
	}{
		"gatekeeper-audit.ndjson": {15, func(r decision.Record) bool {
			return r.EventType == decision.ViolationAudited && r.EnforcementAction == "dryrun" &&
				r.ResourceLabels["env"] == "prod" && string(r.Details) == `{"missing_labels":["team"]}`
		}},
		"gatekeeper-audit-failed.ndjson": {2, func(r decision.Record) bool {
			return r.EventType == "" && r.Message == "audit is completed"
		}},
		"gatekeeper-admission.ndjson": {5, func(r decision.Record) bool {
			return r.EventType == decision.ViolationAdmission && r.DryRun != nil && !*r.DryRun &&
				r.Timestamp.Nanosecond() == 213267926 && r.RequestUserGroups[0] == "system:masters" &&
				strings.Contains(string(r.Details), `"n":12345678901234567890`)
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			records, matched := 0, false
			for line := range bytes.Lines(read(t, filepath.Join("..", "..", "testdata", "records", name))) {
				records++
				if err := schema.Validate(parse(t, string(line))); err != nil {
					t.Errorf("record %d: %v", records, err)
				}
				var r decision.Record
				if err := json.Unmarshal(line, &r); err != nil {
					t.Fatalf("record %d: %v", records, err)
				}
				if err := r.Validate(); err != nil {
					t.Errorf("record %d: %v", records, err)
				}
				matched = matched || tt.check(r)
			}
			if records != tt.records {
				t.Errorf("got %d records, want %d", records, tt.records)
			}
			if !matched {
				t.Error("no record reads into the fields it should")
			}
		})
	}
}

// samples are JSON values of every shape, and kinds say which of them a member
// may have. The table is written by hand so that it can disagree with the
// generator.
var samples = []string{
	`null`, `true`, `1`, `2`, `0`, `-1`, `1.5`, `18446744073709551616`,
	`"text"`, `"deny"`, `"audit"`, `"2026-01-05T10:04:07Z"`, `"2026-01-05"`,
	`[]`, `["a"]`, `[1]`, `{}`, `{"a":"b"}`, `{"a":1}`,
}

var kinds = map[string][]string{
	"any":      samples,
	"string":   {`"text"`, `"deny"`, `"audit"`, `"2026-01-05T10:04:07Z"`, `"2026-01-05"`},
	"strings":  {`[]`, `["a"]`},
	"map":      {`{}`, `{"a":"b"}`},
	"bool":     {`true`},
	"time":     {`"2026-01-05T10:04:07Z"`},
	"version":  {`1`},
	"decision": {`"deny"`},
	"process":  {`"audit"`},
	"sequence": {`1`, `2`},
	"integer":  {`1`, `2`, `0`, `-1`},
	"number":   {`1`, `2`, `0`, `-1`, `1.5`, `18446744073709551616`},
}

var members = map[string]string{
	"id": "string", "details": "any", "eventType": "string",
	"group": "string", "version": "string", "kind": "string", "name": "string", "namespace": "string",
	"message": "string", "enforcementAction": "string", "enforcementActions": "strings",
	"constraintAnnotations": "map",
	"resourceGroup":         "string", "resourceAPIVersion": "string", "resourceKind": "string",
	"resourceNamespace": "string", "resourceName": "string", "resourceLabels": "map",
	"timestamp": "time", "operation": "string", "requestResource": "string", "requestSubresource": "string",
	"requestUsername": "string", "requestUserUID": "string", "requestUserGroups": "strings", "dryRun": "bool",
	"schemaVersion": "version", "decision": "decision", "process": "process",
	"cluster": "string", "pod": "string", "auditID": "string", "requestUID": "string",
	"template": "string", "resourceUID": "string", "sequence": "sequence",
	"code": "integer", "warnings": "strings", "auditAnnotations": "map", "patchType": "string", "patchBytes": "integer",
	"durationSeconds": "number", "webhookPath": "string", "failure": "string",
	"object": "any", "oldObject": "any", "patch": "any", "omitted": "strings",
}

func TestSchemaTypes(t *testing.T) {
	schema := compile(t)
	for member, kind := range members {
		t.Run(member, func(t *testing.T) {
			for _, value := range samples {
				line := `{"` + member + `":` + value + `}`
				err := schema.Validate(parse(t, line))
				if got, want := err == nil, slices.Contains(kinds[kind], value); got != want {
					t.Errorf("%s: got accepted %t, want %t: %v", line, got, want, err)
				}
				checkTypeAgrees(t, line, err == nil)
			}
		})
	}
}

// checkTypeAgrees reports a line on which Record and its schema disagree. Two
// things only the schema sees: null and 0, which read as absent.
func checkTypeAgrees(t *testing.T, line string, accepted bool) {
	t.Helper()
	var r decision.Record
	err := json.Unmarshal([]byte(line), &r)
	if err == nil {
		err = r.Validate()
	}
	if accepted && err != nil {
		t.Errorf("%s: the schema accepts what Record does not: %v", line, err)
	}
	if !accepted && err == nil && !strings.HasSuffix(line, ":null}") && !strings.HasSuffix(line, ":0}") {
		t.Errorf("%s: Record accepts what the schema does not", line)
	}
}

func TestSchemaRefusesUnknownValues(t *testing.T) {
	schema := compile(t)
	for _, line := range []string{
		`{"decision":"Deny"}`, `{"decision":""}`, `{"decision":"scoped"}`,
		`{"process":"webhook"}`, `{"process":""}`, `{"schemaVersion":"1"}`, `{"schemaVersion":2}`,
		`[]`, `"text"`, `null`,
	} {
		if schema.Validate(parse(t, line)) == nil {
			t.Errorf("%s: got accepted, want refused", line)
		}
	}
}

// The schema lists every value that Validate takes, and no other.
func TestSchemaEnums(t *testing.T) {
	var published struct {
		Properties struct {
			Decision struct{ Enum []decision.Decision }
			Process  struct{ Enum []decision.Process }
		}
	}
	if err := json.Unmarshal(read(t, schemaFile), &published); err != nil {
		t.Fatal(err)
	}
	decisions := []decision.Decision{decision.Allow, decision.Deny, decision.Warn, decision.DryRun, decision.Error}
	if got := published.Properties.Decision.Enum; !slices.Equal(got, decisions) {
		t.Errorf("decision: got %q, want %q", got, decisions)
	}
	processes := []decision.Process{decision.Admission, decision.Audit}
	if got := published.Properties.Process.Enum; !slices.Equal(got, processes) {
		t.Errorf("process: got %q, want %q", got, processes)
	}
	for _, d := range decisions {
		for _, p := range processes {
			r := decision.Record{Decision: d, Process: p}
			if err := r.Validate(); err != nil {
				t.Errorf("%s, %s: %v", d, p, err)
			}
		}
	}
}

// Type, schema and the table above have the same members.
func TestSchemaMembers(t *testing.T) {
	var published struct {
		Properties map[string]struct {
			Description string `json:"description"`
		} `json:"properties"`
		AdditionalProperties *bool `json:"additionalProperties"`
	}
	if err := json.Unmarshal(read(t, schemaFile), &published); err != nil {
		t.Fatal(err)
	}
	if published.AdditionalProperties == nil || !*published.AdditionalProperties {
		t.Error("additionalProperties is not true: consumers must tolerate unknown members")
	}
	inSchema := make(map[string]bool)
	for name, p := range published.Properties {
		inSchema[name] = true
		if p.Description == "" {
			t.Errorf("schema: %s has no description", name)
		}
	}
	inType := make(map[string]bool)
	for f := range reflect.TypeFor[decision.Record]().Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		inType[name] = true
		if !strings.HasPrefix(options, "omit") {
			t.Errorf("field %s is written when it is not set", f.Name)
		}
	}
	inTable := make(map[string]bool)
	for name := range members {
		inTable[name] = true
	}
	if !reflect.DeepEqual(inSchema, inType) {
		t.Errorf("members of the schema %v, of the type %v", inSchema, inType)
	}
	if !reflect.DeepEqual(inTable, inType) {
		t.Errorf("members of the test %v, of the type %v", inTable, inType)
	}
}

func compile(t *testing.T) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	schema, err := c.Compile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func parse(t *testing.T, line string) any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(line))
	if err != nil {
		t.Fatalf("parse %s: %v", line, err)
	}
	return v
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
