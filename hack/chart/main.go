// Command chart writes the files of charts/docket that follow from others: the schema of
// its values, the table in its README, and copies of the alert rules and the dashboard. It
// is no part of docket.
//
//	go run ./hack/chart charts/docket
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

//go:generate go run . ../../charts/docket

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: chart DIRECTORY")
		os.Exit(2)
	}
	if err := generate(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func generate(chart string) error {
	text, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	if err != nil {
		return err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return err
	}
	values, err := parse(doc.Content[0], "")
	if err != nil {
		return err
	}
	if err := writeSchema(filepath.Join(chart, "values.schema.json"), values); err != nil {
		return err
	}
	if err := writeTable(filepath.Join(chart, "README.md"), values); err != nil {
		return err
	}
	for _, name := range []string{"rules.yaml", "dashboard.json"} {
		text, err := os.ReadFile(filepath.Join(chart, "../../manifests/monitoring", name))
		if err != nil {
			return err
		}
		if strings.HasSuffix(name, ".json") {
			var line bytes.Buffer // a release keeps its chart, and has a bound
			if err := json.Compact(&line, text); err != nil {
				return err
			}
			text = append(line.Bytes(), '\n')
		}
		if err := os.WriteFile(filepath.Join(chart, "files", name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func writeSchema(path string, values []value) error {
	schema, err := object(values)
	if err != nil {
		return err
	}
	schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	schema["title"] = "Values of the chart docket"
	// Helm gives a subchart the globals of its parent, and the parent's condition.
	properties := schema["properties"].(shape)
	properties["global"] = shape{"type": "object", "description": "values that all charts of a release share; this one reads none"}
	properties["enabled"] = shape{"type": "boolean", "description": "whether a chart that depends on this one includes it"}

	// One key a line: a change shows as one.
	var b bytes.Buffer
	b.WriteString("{\n")
	for i, key := range sorted(schema) {
		if i > 0 {
			b.WriteString(",\n")
		}
		if key == "properties" {
			b.WriteString(`"properties": {` + "\n")
			for i, name := range sorted(properties) {
				if i > 0 {
					b.WriteString(",\n")
				}
				if err := member(&b, name, properties[name]); err != nil {
					return err
				}
			}
			b.WriteString("\n}")
		} else if err := member(&b, key, schema[key]); err != nil {
			return err
		}
	}
	b.WriteString("\n}\n")
	return os.WriteFile(path, b.Bytes(), 0o644)
}

func member(b *bytes.Buffer, name string, v any) error {
	fmt.Fprintf(b, "%q: ", name)
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	b.Truncate(b.Len() - 1)
	return nil
}

// Where the table stands in the README.
const (
	tableBegin = "<!-- values.yaml, by go generate -->\n"
	tableEnd   = "<!-- end -->\n"
)

func writeTable(path string, values []value) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), tableBegin)
	_, after, ended := strings.Cut(rest, tableEnd)
	if !ok || !ended {
		return fmt.Errorf("%s has no place for the table", path)
	}
	var b strings.Builder
	b.WriteString("| key | default | meaning |\n|---|---|---|\n")
	rows(&b, "", values)
	return os.WriteFile(path, []byte(before+tableBegin+b.String()+tableEnd+after), 0o644)
}

func rows(b *strings.Builder, prefix string, values []value) {
	for _, v := range values {
		key := prefix + v.key
		if v.about != "" {
			fmt.Fprintf(b, "| `%s` | %s | %s |\n", key, v.shown(), strings.ReplaceAll(v.about, "|", `\|`))
		}
		rows(b, key+".", v.children)
	}
}
