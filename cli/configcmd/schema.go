package configcmd

import (
	"encoding/json"
	"io"

	"github.com/docket-export/docket/cli/tapcmd"
	"github.com/docket-export/docket/docs"
	"github.com/docket-export/docket/exporter"
)

// Schema returns the JSON Schema of configuration files of both kinds.
func Schema(kinds exporter.Kinds) map[string]any {
	return map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"title":   "Configuration of docket",
		"type":    "object",
		"if": map[string]any{
			"properties": map[string]any{"kind": map[string]any{"const": "Tap"}},
			"required":   []any{"kind"},
		},
		"then": tapcmd.Schema(describeBy(docs.Tap)),
		"else": exporter.Schema(kinds, describeBy(docs.Configuration)),
	}
}

// describeBy returns what the table of a page says of a key.
func describeBy(page string) func(path string) string {
	keys := docs.Keys(page)
	return func(path string) string { return keys[path] }
}

func printSchema(w io.Writer, kinds exporter.Kinds) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(Schema(kinds))
}
