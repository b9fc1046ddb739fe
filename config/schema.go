package config

import (
	"encoding"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// Shape is a part of a JSON Schema (2020-12).
type Shape map[string]any

// Shaped is a type with UnmarshalText that says which scalars it takes. A type without
// a Shape takes all scalars.
type Shaped interface{ Shape() Shape }

// Matching is the shape of a text that is empty or matches pattern as a whole.
func Matching(pattern string) Shape { return Shape{"pattern": "^(?:" + pattern + ")?$"} }

// Says makes editors show message instead of the pattern. The keyword is for editors;
// other validators ignore it.
func (s Shape) Says(message string) Shape {
	s["patternErrorMessage"] = message
	return s
}

// AnyCase is a pattern for one of words, in capitals or small letters.
func AnyCase(words ...string) string {
	var b strings.Builder
	for i, word := range words {
		if i > 0 {
			b.WriteByte('|')
		}
		for _, r := range word {
			if low, up := unicode.ToLower(r), unicode.ToUpper(r); low != up {
				b.WriteString("[" + string(low) + string(up) + "]")
			} else {
				b.WriteRune(r)
			}
		}
	}
	return b.String()
}

// Property is the shape of the value at key of a mapping.
func (s Shape) Property(key string) Shape { return s["properties"].(map[string]Shape)[key] }

// AddKind adds key to the keys of which a mapping has exactly one. empty says that its section
// may be empty, because the defaults are enough.
func (s Shape) AddKind(key string, section Shape, empty bool) {
	section.finish(!empty)
	s["properties"].(map[string]Shape)[key] = section
	kinds, _ := s["oneOf"].([]any)
	s["oneOf"] = append(kinds, Shape{"required": []any{key}})
	s["additionalProperties"] = false
}

// emptyValues are those that stand for no value.
var emptyValues = []any{nil, "", false, 0, []any{}}

// Schema returns the shape of the section that is decoded into a value such as defaults,
// a struct or a pointer to one. Of a list, a first item has the defaults of each. At is
// the path of the section, and describe says what is at a path, such as "sinks[].name".
func Schema(defaults any, at string, describe func(path string) string) Shape {
	v := reflect.ValueOf(defaults)
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	return schemas{describe}.section(v, at)
}

type schemas struct {
	describe func(path string) string
}

// value is the shape of a value of v's type, whose default is v. Null is not among its
// types: whoever has the key adds it.
func (s schemas) value(v reflect.Value, at string) Shape {
	t := v.Type()
	if t == nodeType {
		return Shape{}
	}
	p := reflect.New(t)
	if shaped, ok := p.Interface().(Shaped); ok {
		return shaped.Shape()
	}
	if _, ok := p.Interface().(encoding.TextUnmarshaler); ok {
		return Shape{"type": anys([]string{"string", "number", "boolean"})}
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v = reflect.New(t.Elem())
		}
		return s.value(v.Elem(), at)
	case reflect.Struct:
		return s.section(v, at)
	case reflect.Slice:
		item := reflect.Zero(t.Elem())
		if v.Len() > 0 {
			item = v.Index(0)
		}
		return Shape{"type": anys([]string{"array"}), "items": s.value(item, at+"[]")}
	case reflect.Map:
		return Shape{"type": anys([]string{"object"}), "additionalProperties": s.value(reflect.Zero(t.Elem()), at+".*")}
	case reflect.String:
		return Shape{"type": anys([]string{"string"})}
	case reflect.Bool:
		return Shape{"type": anys([]string{"boolean"})}
	}
	lowest, highest := integerRange(v)
	shape := Shape{"type": anys([]string{"integer"})}
	if lowest > math.MinInt64 {
		shape["minimum"], shape["maximum"] = lowest, highest
	}
	return shape
}

// section is the shape of a mapping that is decoded into the struct v.
func (s schemas) section(v reflect.Value, at string) Shape {
	fields, rest := fieldsOf(v.Type())
	members, required := make(map[string]Shape), make(map[string]bool)
	for _, f := range fields {
		value, path := v.FieldByIndex(f.index), join(at, f.name)
		m := s.value(value, path)
		if text := s.describe(path); text != "" {
			m["description"] = text
		}
		if d := defaultOf(value); d != nil {
			m["default"] = d
		}
		members[f.name] = m
		required[f.name] = value.Kind() == reflect.Struct && m["required"] != nil
	}

	var conditional []any
	for _, r := range rulesOf(v) {
		if r.shape == nil {
			continue
		}
		needed := r.test(member(v, r.key)) != nil
		if len(r.when) > 0 {
			conditional = append(conditional, r.conditional(v, needed))
			continue
		}
		required[r.key] = required[r.key] || needed
		members[r.key].add(r.shape)
	}
	shape := Shape{"type": anys([]string{"object"}), "properties": members}
	for name, m := range members {
		m.finish(required[name])
	}
	for _, r := range rulesOf(v) {
		required[r.key] = required[r.key] || r.present
	}
	shape.require(required)
	if rest == noRest {
		shape["additionalProperties"] = false
	}
	if len(conditional) > 0 {
		shape["allOf"] = conditional
	}
	return shape
}

// conditional is the shape of a section with a rule that has conditions. Needed says that
// the default breaks it, so that the key must be there.
func (r Rule) conditional(section reflect.Value, needed bool) Shape {
	m := Shape{}
	m.add(r.shape)
	m.finish(needed)
	then := Shape{"properties": map[string]Shape{r.key: m}}
	then.require(map[string]bool{r.key: needed})
	var conditions []any
	for _, c := range r.when {
		conditions = append(conditions, c.schema(section))
	}
	return Shape{"if": Shape{"allOf": conditions}, "then": then}
}

// schema is the shape of a section for which the condition holds.
func (c Cond) schema(section reflect.Value) Shape {
	positive := c
	positive.not = false
	byDefault := positive.holds(section)
	m := Shape{"not": Shape{"enum": emptyValues}}
	switch {
	case c.prefix != "":
		m = Shape{"pattern": "^" + c.prefix}
	case len(c.values) > 0 && byDefault:
		m = Shape{"enum": append(anys(c.values), nil)}
	case len(c.values) > 0:
		m = Shape{"enum": anys(c.values)}
	case byDefault:
		m = Shape{"not": Shape{"enum": emptyValues[1:]}} // null stands for the default
	}
	shape := Shape{"properties": map[string]Shape{c.key: m}}
	if !byDefault {
		shape["required"] = anys([]string{c.key})
	}
	if c.not {
		return Shape{"not": shape}
	}
	return shape
}

// add narrows s by what another shape says.
func (s Shape) add(more Shape) {
	for key := range more {
		if _, taken := s[key]; taken {
			all, _ := s["allOf"].([]any)
			s["allOf"] = append(all, more)
			return
		}
	}
	maps.Copy(s, more)
}

// keywordTypes are the types that keywords of rules are about.
var keywordTypes = map[string]string{
	"minLength": "string", "maxLength": "string", "pattern": "string", "minItems": "array", "maxItems": "array",
	"minimum": "integer", "maximum": "integer", "exclusiveMinimum": "integer",
}

// finish drops what is about other types. It lets a key have no value, which stands for its default, or sees to it that a
// required one has some.
func (s Shape) finish(required bool) {
	types, typed := s["type"].([]any)
	for keyword, kind := range keywordTypes {
		if typed && !slices.Contains(types, any(kind)) {
			delete(s, keyword)
		}
	}
	switch {
	case required:
		if !typed {
			s["not"] = Shape{"type": "null"}
		}
		return
	case typed:
		s["type"] = append(types, "null")
	}
	if enum, ok := s["enum"].([]any); ok && !slices.Contains(enum, nil) {
		s["enum"] = append(slices.Clone(enum), nil)
	}
}

func (s Shape) require(keys map[string]bool) {
	var required []string
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if keys[key] {
			required = append(required, key)
		}
	}
	if len(required) > 0 {
		s["required"] = anys(required)
	}
}

// defaultOf is v as it is written in a schema, nil for no value.
func defaultOf(v reflect.Value) any {
	if m, ok := marshaler(v); ok {
		if text, err := m.MarshalText(); err == nil && !v.IsZero() {
			return string(text)
		}
		return nil
	}
	switch {
	case v.Kind() == reflect.Bool:
		return v.Bool()
	case v.IsZero():
	case v.Kind() == reflect.String:
		return v.String()
	case v.CanInt():
		return v.Int()
	}
	return nil
}

func anys[S ~string](words []S) []any {
	list := make([]any, len(words))
	for i, w := range words {
		list[i] = string(w)
	}
	return list
}
