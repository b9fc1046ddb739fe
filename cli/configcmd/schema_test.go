package configcmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"go.yaml.in/yaml/v3"

	"github.com/docket-export/docket/cli/builtin"
	"github.com/docket-export/docket/cli/tapcmd"
	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/exporter"
)

const configs = "../../testdata/config"

// TestSchemaAgreesWithCheck: on every file of testdata the schema marks the places that
// docket check complains of, but for those that unschemed.txt lists with a reason, and no
// others.
func TestSchemaAgreesWithCheck(t *testing.T) {
	schema := compileSchema(t)
	excused := readExcuses(t)
	for _, file := range configFiles(t) {
		t.Run(file, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(configs, file))
			if err != nil {
				t.Fatal(err)
			}
			wrong := checkPaths(text)
			if good := strings.HasSuffix(file, ".good.yaml"); good != (len(wrong) == 0) {
				t.Errorf("check complains of %q", wrong)
			}
			marked, ok := schemaPaths(t, schema, text)
			if !ok {
				return // no YAML: an editor says so before it asks a schema
			}
			for _, path := range wrong {
				name := file + ": " + path
				found := slices.ContainsFunc(marked, func(m string) bool { return m == path || strings.HasPrefix(path, m+".") && !slices.Contains(wrong, m) })
				if reason := excused[name]; found == (reason != "") {
					t.Errorf("%s: the schema marks it: %t; in unschemed.txt: %q", name, found, reason)
				}
				delete(excused, name)
			}
			for _, m := range marked {
				if !slices.ContainsFunc(wrong, func(path string) bool { return related(m, path) }) {
					t.Errorf("the schema marks %q, which check takes", m)
				}
			}
		})
	}
	for _, name := range slices.Sorted(maps.Keys(excused)) {
		t.Errorf("unschemed.txt: %s: check does not complain of it", name)
	}
}

// TestSchemaTakesEffectiveConfigurations: what docket config prints, with every default.
func TestSchemaTakesEffectiveConfigurations(t *testing.T) {
	schema := compileSchema(t)
	for _, file := range configFiles(t) {
		text, err := os.ReadFile(filepath.Join(configs, file))
		if err != nil || !strings.HasSuffix(file, ".good.yaml") {
			continue
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
		if marked, _ := schemaPaths(t, schema, full); len(marked) > 0 {
			t.Errorf("%s: the schema marks %q in\n%s", file, marked, full)
		}
	}
}

// explainedTogether are keys without a row of their own in the documentation.
var explainedTogether = []string{".redact.", ".headers.", ".stdout", "Tap.apiVersion", "Tap.kind"}

// TestSchemaDescribesEveryKey: an editor has a text for each key that has a value.
func TestSchemaDescribesEveryKey(t *testing.T) {
	whole := Schema(builtin.Kinds())
	var walk func(at string, s config.Shape)
	walk = func(at string, s config.Shape) {
		if items, ok := s["items"].(config.Shape); ok && items["properties"] != nil {
			s = items
		}
		members, ok := s["properties"].(map[string]config.Shape)
		if !ok {
			if s["description"] == nil && !slices.ContainsFunc(explainedTogether, func(part string) bool { return strings.Contains(at, part) }) {
				t.Errorf("%s has no description", at)
			}
			return
		}
		for key, m := range members {
			walk(at+"."+key, m)
		}
	}
	walk("Tap", whole["then"].(config.Shape))
	walk("Exporter", whole["else"].(config.Shape))
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

func configFiles(t *testing.T) (files []string) {
	t.Helper()
	for _, pattern := range []string{"*.yaml", "kinds/*.yaml"} {
		found, err := filepath.Glob(filepath.Join(configs, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("got files %q, %v", found, err)
		}
		for _, file := range found {
			name, _ := filepath.Rel(configs, file)
			files = append(files, name)
		}
	}
	return files
}

// readExcuses reads lines "file: path: reason".
func readExcuses(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(configs, "unschemed.txt"))
	if err != nil {
		t.Fatal(err)
	}
	excused := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		parts := strings.SplitN(strings.TrimSpace(line), ": ", 3)
		if len(parts) != 3 || parts[2] == "" {
			t.Fatalf("unschemed.txt: got %q, want file: path: reason", line)
		}
		excused[parts[0]+": "+parts[1]] = parts[2]
	}
	return excused
}

// checkPaths are the places that docket check complains of.
func checkPaths(text []byte) (paths []string) {
	var problems config.Problems
	if tapcmd.IsTap(text) {
		_, problems = tapcmd.Load(text)
	} else {
		_, problems = exporter.Load(text, builtin.Kinds())
	}
	for _, p := range problems {
		paths = append(paths, p.Path)
	}
	return slices.Compact(paths)
}

// schemaPaths are the places that the schema marks; ok is false where text is no YAML.
func schemaPaths(t *testing.T, schema *jsonschema.Schema, text []byte) (paths []string, ok bool) {
	t.Helper()
	var doc any
	if err := yaml.Unmarshal(text, &doc); err != nil || doc == nil {
		return nil, false
	}
	asJSON, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
	if err != nil {
		t.Fatal(err)
	}
	if invalid, ok := errors.AsType[*jsonschema.ValidationError](schema.Validate(instance)); ok {
		paths = leaves(nil, invalid)
	}
	slices.Sort(paths)
	return slices.Compact(paths), true
}

func leaves(paths []string, e *jsonschema.ValidationError) []string {
	switch k := e.ErrorKind.(type) {
	case *kind.OneOf:
		return append(paths, place(e.InstanceLocation))
	case *kind.Required:
		for _, key := range k.Missing {
			paths = append(paths, place(append(slices.Clone(e.InstanceLocation), key)))
		}
		return paths
	case *kind.AdditionalProperties:
		for _, key := range k.Properties {
			paths = append(paths, place(append(slices.Clone(e.InstanceLocation), key)))
		}
		return paths
	}
	if len(e.Causes) == 0 {
		return append(paths, place(e.InstanceLocation))
	}
	for _, cause := range e.Causes {
		paths = leaves(paths, cause)
	}
	return paths
}

// place writes a location as docket check does.
func place(location []string) string {
	path := ""
	for _, part := range location {
		_, err := strconv.Atoi(part)
		switch {
		case err == nil:
			path += "[" + part + "]"
		case path == "":
			path = part
		default:
			path += "." + part
		}
	}
	return path
}

// related says whether one of two places is within the other: a missing section and a
// missing key of it are one mistake.
func related(a, b string) bool {
	within := func(a, b string) bool {
		rest, ok := strings.CutPrefix(a, b)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	}
	return within(a, b) || within(b, a)
}

// TestSchemaTakesWhatCheckTakes: what check takes of changed good files, the schema takes.
func TestSchemaTakesWhatCheckTakes(t *testing.T) { takeWhatCheckTakes(t, 53) }

// takeWhatCheckTakes removes values of every good file in turn, or replaces them by values of
// all types: one change of every so many.
func takeWhatCheckTakes(t *testing.T, every int) {
	t.Helper()
	schema := compileSchema(t)
	taken, tried := 0, 0
	inTurn := func() bool { tried++; return tried%every == 0 }
	for _, file := range configFiles(t) {
		if !strings.HasSuffix(file, ".good.yaml") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(configs, file))
		if err != nil {
			t.Fatal(err)
		}
		for changed := range changes(t, text, inTurn) {
			if len(checkPaths(changed)) > 0 {
				continue
			}
			taken++
			if marked, _ := schemaPaths(t, schema, changed); len(marked) > 0 {
				t.Errorf("%s: the schema marks %q in what check takes:\n%s", file, marked, changed)
			}
		}
	}
	if tried /= every; taken < 10 || taken < tried/20 {
		t.Errorf("check took %d of %d changed files: too few to say anything", taken, tried)
	}
}

// changes yields text with one value removed or replaced, where that is inTurn.
func changes(t *testing.T, text []byte, inTurn func() bool) iter.Seq[[]byte] {
	values := []string{"null", `""`, "0", "-1", "1.5", "true", "x", "5s", "1Gi", "7", "[]", "{}", "[x]", "/a"}
	return func(yield func([]byte) bool) {
		var doc yaml.Node
		if err := yaml.Unmarshal(text, &doc); err != nil {
			t.Fatal(err)
		}
		write := func() bool {
			if !inTurn() {
				return true
			}
			changed, err := yaml.Marshal(&doc)
			if err != nil {
				t.Fatal(err)
			}
			return yield(changed)
		}
		var visit func(n *yaml.Node) bool
		visit = func(n *yaml.Node) bool {
			kept := n.Content
			for i := range kept {
				if n.Kind == yaml.MappingNode && i%2 == 0 {
					n.Content = slices.Concat(kept[:i], kept[i+2:]) // without this key
					if !write() {
						return false
					}
					n.Content = kept
					continue
				}
				original := *kept[i]
				for _, value := range values {
					var other yaml.Node
					if err := yaml.Unmarshal([]byte(value), &other); err != nil {
						t.Fatal(err)
					}
					*kept[i] = *other.Content[0]
					if !write() {
						return false
					}
				}
				*kept[i] = original
				if !visit(kept[i]) {
					return false
				}
			}
			return true
		}
		visit(doc.Content[0])
	}
}
