package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"reflect"
	"strconv"
	"strings"
)

// The name of the schema, not an address to fetch it from. It ends in the
// version, because a schema is for ever.
const schemaID = "https://docket.dev/schema/record-v1.json"

// document is the schema, with its members in the order in which they are
// written.
type document struct {
	Schema      string     `json:"$schema"`
	ID          string     `json:"$id"`
	Title       string     `json:"title"`
	Description string     `json:"description"`
	Type        string     `json:"type"`
	Properties  properties `json:"properties"`
	// Always true, and written so that nobody has to know the default.
	AdditionalProperties bool `json:"additionalProperties"`
}

// property is the schema of one member.
type property struct {
	Description          string      `json:"description,omitempty"`
	Type                 string      `json:"type,omitempty"` // empty: any JSON value
	Const                json.Number `json:"const,omitempty"`
	Enum                 []string    `json:"enum,omitempty"`
	Format               string      `json:"format,omitempty"`
	Minimum              json.Number `json:"minimum,omitempty"`
	Maximum              json.Number `json:"maximum,omitempty"`
	Items                *property   `json:"items,omitempty"`
	AdditionalProperties *property   `json:"additionalProperties,omitempty"`
}

// properties keeps the order of the struct, which an object made from a map
// would not.
type properties []member

type member struct {
	name   string
	schema property
}

func (p properties) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // the descriptions are read by people
	b.WriteByte('{')
	for i, m := range p {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Quote(m.name) + ":")
		if err := enc.Encode(m.schema); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// generate returns the schema of the type Record in src, the Go file called
// name. It fails rather than leave out or guess anything about a field.
func generate(name string, src []byte) ([]byte, error) {
	file, err := parser.ParseFile(token.NewFileSet(), name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parse source: %w", err)
	}
	doc, record, err := findRecord(file)
	if err != nil {
		return nil, err
	}
	c := collectConstants(file)
	if c.version == "" {
		return nil, fmt.Errorf("%s has no constant SchemaVersion", name)
	}
	d := document{
		Schema:               "https://json-schema.org/draft/2020-12/schema",
		ID:                   schemaID,
		Title:                "docket record, version " + c.version,
		Description:          prose(doc),
		Type:                 "object",
		AdditionalProperties: true,
	}
	for _, f := range record.Fields.List {
		m, err := c.member(f)
		if err != nil {
			return nil, err
		}
		d.Properties = append(d.Properties, m)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(d); err != nil {
		return nil, fmt.Errorf("encode schema: %w", err)
	}
	return b.Bytes(), nil
}

// findRecord returns the declaration of Record and its comment.
func findRecord(file *ast.File) (*ast.CommentGroup, *ast.StructType, error) {
	for _, decl := range file.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range gen.Specs {
			t, ok := spec.(*ast.TypeSpec)
			if !ok || t.Name.Name != "Record" {
				continue
			}
			if s, ok := t.Type.(*ast.StructType); ok {
				return gen.Doc, s, nil
			}
		}
	}
	return nil, nil, fmt.Errorf("package %s has no struct type Record", file.Name.Name)
}

// constants is what the constants of the source say about the schema.
type constants struct {
	version string              // value of SchemaVersion
	enums   map[string][]string // values by the name of their type
}

func collectConstants(file *ast.File) constants {
	c := constants{enums: make(map[string][]string)}
	for _, decl := range file.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.CONST {
			continue
		}
		for _, spec := range gen.Specs {
			c.add(spec.(*ast.ValueSpec))
		}
	}
	return c
}

func (c *constants) add(spec *ast.ValueSpec) {
	for i, value := range spec.Values {
		lit, ok := value.(*ast.BasicLit)
		if !ok {
			continue
		}
		if spec.Names[i].Name == "SchemaVersion" {
			c.version = lit.Value
		}
		if enum, ok := spec.Type.(*ast.Ident); ok && lit.Kind == token.STRING {
			text, err := strconv.Unquote(lit.Value)
			if err == nil { // the parser has accepted the literal
				c.enums[enum.Name] = append(c.enums[enum.Name], text)
			}
		}
	}
}

// member returns the schema of one field.
func (c *constants) member(f *ast.Field) (member, error) {
	if len(f.Names) != 1 || f.Tag == nil {
		return member{}, fmt.Errorf("field %s: must be one name with a tag", types.ExprString(f.Type))
	}
	field := f.Names[0].Name
	tag, err := strconv.Unquote(f.Tag.Value)
	if err != nil {
		return member{}, fmt.Errorf("field %s: read tag: %w", field, err)
	}
	name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
	if name == "" || name == "-" {
		return member{}, fmt.Errorf("field %s: must have a JSON name", field)
	}
	if f.Doc == nil {
		return member{}, fmt.Errorf("field %s: must have a comment", field)
	}
	schema, ok := c.typed(field, types.ExprString(f.Type))
	if !ok {
		return member{}, fmt.Errorf("field %s: no schema for type %s: add one to schemagen", field, types.ExprString(f.Type))
	}
	schema.Description = prose(f.Doc)
	return member{name, schema}, nil
}

// typed returns the schema of a Go type, written as in the source.
func (c *constants) typed(field, goType string) (property, bool) {
	if field == "SchemaVersion" {
		return property{Type: "integer", Const: json.Number(c.version)}, true
	}
	if values, ok := c.enums[goType]; ok {
		return property{Type: "string", Enum: values}, true
	}
	switch goType {
	case "string":
		return property{Type: "string"}, true
	case "int":
		return property{Type: "integer", Minimum: "-9223372036854775808", Maximum: "9223372036854775807"}, true
	case "float64":
		return property{Type: "number"}, true
	case "*bool":
		return property{Type: "boolean"}, true
	case "uint64":
		// From 1: the zero value is not written.
		return property{Type: "integer", Minimum: "1", Maximum: "18446744073709551615"}, true
	case "time.Time":
		return property{Type: "string", Format: "date-time"}, true
	case "json.RawMessage":
		return property{}, true
	case "[]string":
		return property{Type: "array", Items: &property{Type: "string"}}, true
	case "map[string]string":
		return property{Type: "object", AdditionalProperties: &property{Type: "string"}}, true
	}
	return property{}, false
}

// prose is a comment without its line breaks; paragraphs stay apart.
func prose(doc *ast.CommentGroup) string {
	paragraphs := strings.Split(strings.TrimSpace(doc.Text()), "\n\n")
	for i, p := range paragraphs {
		paragraphs[i] = strings.Join(strings.Fields(p), " ")
	}
	return strings.Join(paragraphs, "\n\n")
}
