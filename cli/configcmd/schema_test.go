package configcmd

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/docket-export/docket/cli/builtin"
	"github.com/docket-export/docket/cli/tapcmd"
	"github.com/docket-export/docket/exporter"
)

// The schema accepts every good file of testdata, and the same file with every default. It
// rejects unknown keys and values of another type at every depth.
func TestSchema(t *testing.T) {
	schema := compileSchema(t)
	files, err := filepath.Glob("../../testdata/config/*.good.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("got files %q, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var cfg effective
		if tapcmd.IsTap(text) {
			cfg, _ = tapcmd.Load(text)
		} else {
			cfg, _ = exporter.Load(text, builtin.Kinds())
		}
		full, err := cfg.YAML()
		if err != nil {
			t.Fatal(err)
		}
		for _, good := range [][]byte{text, full} {
			if err := validate(t, schema, string(good)); err != nil {
				t.Errorf("%s: %v\n%s", file, err, good)
			}
		}
	}
	for _, bad := range []string{
		"sinks: [{name: a, fiel: {}}]",
		"sinks: [{name: a, http: {url: x, oauth2: {tokenUrl: x}}}]",
		"sinks: [{name: a, retry: {maxBackoff: []}}]",
		"sources: {name: a}",
		"queue: {retain: {maxBytes: {}}}",
		"limits: {producers: many}",
		"admin: {pprof: 1}",
		"kind: Tap\nqueue: {}",
	} {
		if err := validate(t, schema, bad); err == nil {
			t.Errorf("the schema accepts %s", bad)
		}
	}
}

// explainedTogether are keys without a row of their own in the documentation.
var explainedTogether = []string{".redact.", ".headers.", ".stdout", "Tap.apiVersion", "Tap.kind"}

// TestSchemaDescribesEveryKey: an editor has a text for each key that has a value.
func TestSchemaDescribesEveryKey(t *testing.T) {
	whole := Schema(builtin.Kinds())
	var walk func(at string, s map[string]any)
	walk = func(at string, s map[string]any) {
		if items, ok := s["items"].(map[string]any); ok && items["properties"] != nil {
			s = items
		}
		members, ok := s["properties"].(map[string]any)
		if !ok {
			if s["description"] == nil && !slices.ContainsFunc(explainedTogether, func(part string) bool { return strings.Contains(at, part) }) {
				t.Errorf("%s has no description", at)
			}
			return
		}
		for key, m := range members {
			walk(at+"."+key, m.(map[string]any))
		}
	}
	walk("Tap", whole["then"].(map[string]any))
	walk("Exporter", whole["else"].(map[string]any))
}

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	var text bytes.Buffer
	if err := printSchema(&text, builtin.Kinds()); err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(&text)
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("docket.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("docket.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// validate returns what schema says of a text in YAML.
func validate(t *testing.T, schema *jsonschema.Schema, text string) error {
	t.Helper()
	var doc any
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	asJSON, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
	if err != nil {
		t.Fatal(err)
	}
	return schema.Validate(instance)
}
