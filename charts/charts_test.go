// Package charts compares the files of the chart that say the same.
package charts

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/docket-export/docket/cli/builtin"
	"github.com/docket-export/docket/cli/configcmd"
)

//go:generate go test -run TestWritten -update .

var update = flag.Bool("update", false, "write what is made of other files")

const schemaFile = "docket/values.schema.json"

type shape = map[string]any

// TestValues: the schema has each key of values.yaml, and the README each key with a comment.
func TestValues(t *testing.T) {
	var values yaml.Node
	if err := yaml.Unmarshal(read(t, "docket/values.yaml"), &values); err != nil {
		t.Fatal(err)
	}
	var schema shape
	if err := json.Unmarshal(read(t, schemaFile), &schema); err != nil {
		t.Fatal(err)
	}
	compare(t, values.Content[0], schema, "", string(read(t, "docket/README.md")))
}

func compare(t *testing.T, values *yaml.Node, schema shape, prefix, readme string) {
	properties, _ := schema["properties"].(shape)
	for i := 0; i < len(values.Content); i += 2 {
		key, value := values.Content[i], values.Content[i+1]
		path := prefix + key.Value
		below, ok := properties[key.Value].(shape)
		if !ok {
			t.Errorf("values.yaml has %s, and %s has not", path, schemaFile)
		}
		if key.HeadComment != "" && !strings.Contains(readme, "\n| `"+path+"` |") {
			t.Errorf("values.yaml has %s, and the README has not", path)
		}
		// Flow style is one default, such as that of resources.
		if value.Kind == yaml.MappingNode && value.Style&yaml.FlowStyle == 0 && !strings.HasSuffix(path, "resources") {
			compare(t, value, below, path+".", readme)
		}
	}
}

// TestWritten: the schema has docket's own schema below config and tap, each on a line of its own. The rules and the
// dashboard are those of manifests/monitoring.
func TestWritten(t *testing.T) {
	schema := string(read(t, schemaFile))
	for key, of := range map[string]func(*testing.T) shape{"config": exporterShape, "tap": tapShape} {
		_, rest, _ := strings.Cut(schema, "\n\""+key+"\": ")
		line, _, _ := strings.Cut(rest, "\n")
		var old shape
		if err := json.Unmarshal([]byte(strings.TrimSuffix(line, ",")), &old); err != nil {
			t.Fatalf("%s: %s: %v", schemaFile, key, err)
		}
		s := of(t)
		s["description"] = old["description"]
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(s); err != nil {
			t.Fatal(err)
		}
		schema = strings.Replace(schema, line, strings.TrimSpace(b.String())+",", 1)
	}
	written(t, schemaFile, []byte(schema))
	written(t, "docket/files/rules.yaml", read(t, "../manifests/monitoring/rules.yaml"))
	var dashboard bytes.Buffer // on one line: a release keeps its chart, and has a bound
	if err := json.Compact(&dashboard, read(t, "../manifests/monitoring/dashboard.json")); err != nil {
		t.Fatal(err)
	}
	written(t, "docket/files/dashboard.json", append(dashboard.Bytes(), '\n'))
}

// exporterShape is the schema of docket's configuration, where the chart fills in what
// is the same in each pod. What is missing it refuses in words of its own.
func exporterShape(t *testing.T) shape {
	s := docketShape(t, "else")
	properties := s["properties"].(shape)
	delete(properties["queue"].(shape), "required")
	delete(properties["sources"].(shape), "minItems")
	delete(properties["sinks"].(shape), "minItems")
	return s
}

// tapShape is the same of the configuration of tap, without the keys that a pod decides.
func tapShape(t *testing.T) shape {
	s := docketShape(t, "then")
	properties := s["properties"].(shape)
	docket := properties["docket"].(shape)
	delete(properties["upstream"].(shape), "required")
	delete(docket, "required")
	for _, key := range []string{"listen", "tlsDir", "metrics"} {
		delete(properties, key)
	}
	for _, key := range []string{"address", "tls"} {
		delete(docket["properties"].(shape), key)
	}
	return s
}

// docketShape is a branch of the schema that docket config prints.
func docketShape(t *testing.T, branch string) (s shape) {
	text, err := json.Marshal(configcmd.Schema(builtin.Kinds())[branch])
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		t.Fatal(err)
	}
	delete(s, "required")
	return s
}

func written(t *testing.T, name string, want []byte) {
	t.Helper()
	if bytes.Equal(read(t, name), want) {
		return
	}
	if !*update {
		t.Errorf("%s is not up to date: run go generate ./charts", name)
	} else if err := os.WriteFile(name, want, 0o644); err != nil {
		t.Fatal(err)
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
