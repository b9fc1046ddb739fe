package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPublishedSchemaIsUpToDate(t *testing.T) {
	got := filepath.Join(t.TempDir(), "record.schema.json")
	if err := run("../../record.go", got); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(read(t, got), read(t, "../../record.schema.json")) {
		t.Error("record.schema.json is not what record.go generates: run go generate ./decision")
	}
}

func TestGenerate(t *testing.T) {
	const src = `package p

const SchemaVersion = 7

type Colour string

const (
	Red   Colour = "red"
	Green Colour = "green"
)

// Record is
// a thing.
//
// Truly.
type Record struct {
	// Colour <of> it.
	Colour Colour ` + "`json:\"colour,omitempty\"`" + `
	// Count of it.
	Count uint64 ` + "`json:\"count\"`" + `
	// SchemaVersion of it.
	SchemaVersion int ` + "`json:\"v\"`" + `
}
`
	const want = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "$id": "https://docket.dev/schema/record-v1.json",
  "title": "docket record, version 7",
  "description": "Record is a thing.\n\nTruly.",
  "type": "object",
  "properties": {
    "colour": {
      "description": "Colour <of> it.",
      "type": "string",
      "enum": [
        "red",
        "green"
      ]
    },
    "count": {
      "description": "Count of it.",
      "type": "integer",
      "minimum": 1,
      "maximum": 18446744073709551615
    },
    "v": {
      "description": "SchemaVersion of it.",
      "type": "integer",
      "const": 7
    }
  },
  "additionalProperties": true
}
`
	got, err := generate("p.go", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// The generator must not guess: a field it does not understand would otherwise
// be missing from a published contract.
func TestGenerateRefuses(t *testing.T) {
	const head = "package p\nconst SchemaVersion = 1\n"
	tests := map[string]struct{ src, want string }{
		"not Go":          {"package", "parse source"},
		"no Record":       {head, "no struct type Record"},
		"no version":      {"package p\ntype Record struct{}\n", "no constant SchemaVersion"},
		"unknown type":    {head + "type Record struct {\n// A.\nA chan int `json:\"a\"`\n}\n", "field A: no schema for type chan int"},
		"no comment":      {head + "type Record struct {\nA string `json:\"a\"`\n}\n", "field A: must have a comment"},
		"no tag":          {head + "type Record struct {\n// A.\nA string\n}\n", "must be one name with a tag"},
		"no JSON name":    {head + "type Record struct {\n// A.\nA string `json:\",omitempty\"`\n}\n", "field A: must have a JSON name"},
		"hidden field":    {head + "type Record struct {\n// A.\nA string `json:\"-\"`\n}\n", "field A: must have a JSON name"},
		"embedded struct": {head + "type Record struct {\n// A.\nOther `json:\"a\"`\n}\n", "field Other: must be one name with a tag"},
		"two names":       {head + "type Record struct {\n// A.\nA, B string `json:\"a\"`\n}\n", "must be one name with a tag"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := generate("p.go", []byte(tt.src))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got error %v, want one with %q", err, tt.want)
			}
		})
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
