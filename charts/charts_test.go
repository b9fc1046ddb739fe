// Package charts compares the files of the chart that say the same.
package charts

import (
	"encoding/json"
	"os"
	"testing"

	"go.yaml.in/yaml/v3"
)

type shape = map[string]any

// The schema has each key of values.yaml. Below config and tap docket check judges, and not the schema.
func TestValues(t *testing.T) {
	var values yaml.Node
	if err := yaml.Unmarshal(read(t, "docket/values.yaml"), &values); err != nil {
		t.Fatal(err)
	}
	var schema shape
	if err := json.Unmarshal(read(t, "docket/values.schema.json"), &schema); err != nil {
		t.Fatal(err)
	}
	compare(t, values.Content[0], schema, "")
}

func compare(t *testing.T, values *yaml.Node, schema shape, prefix string) {
	properties, _ := schema["properties"].(shape)
	for i := 0; i < len(values.Content); i += 2 {
		path, value := prefix+values.Content[i].Value, values.Content[i+1]
		below, ok := properties[values.Content[i].Value].(shape)
		if !ok {
			t.Errorf("values.yaml has %s, and the schema has not", path)
		}
		if below["properties"] != nil && value.Kind == yaml.MappingNode {
			compare(t, value, below, path+".")
		}
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
