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

// types are what the schema says of the Go types of Record. A json.RawMessage may be anything.
var types = map[string]string{
	"string": "string", "decision.Decision": "string", "decision.Process": "string", "time.Time": "string", "json.RawMessage": "",
	"int": "integer", "uint64": "integer", "float64": "number", "*bool": "boolean", "[]string": "array", "map[string]string": "object",
}

// Type and schema have the same members, of the same types.
func TestSchemaMembers(t *testing.T) {
	type property struct{ Description, Type, Format string }
	var published struct {
		Properties           map[string]property
		AdditionalProperties *bool
	}
	if err := json.Unmarshal(read(t, schemaFile), &published); err != nil {
		t.Fatal(err)
	}
	if published.AdditionalProperties == nil || !*published.AdditionalProperties {
		t.Error("additionalProperties is not true: consumers must tolerate unknown members")
	}
	for f := range reflect.TypeFor[decision.Record]().Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !strings.HasPrefix(options, "omit") {
			t.Errorf("field %s is written when it is not set", f.Name)
		}
		want, known := types[f.Type.String()]
		got, there := published.Properties[name]
		if !known || !there || got.Type != want || got.Description == "" || (f.Type.String() == "time.Time") != (got.Format == "date-time") {
			t.Errorf("field %s of type %s: the schema has %+v", f.Name, f.Type, got)
		}
		delete(published.Properties, name)
	}
	for name := range published.Properties {
		t.Errorf("the schema has %s, and Record has not", name)
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
