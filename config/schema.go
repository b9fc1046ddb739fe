package config

import (
	"encoding"
	"reflect"
)

// Schema returns the JSON Schema (2020-12) of a section. Defaults is the struct that the section
// is decoded into, or a pointer to it. The schema has the keys with their types, their defaults
// and what describe says of a path such as "sinks[].name". At is the path of the section. There
// are no rules for values: the schema accepts everything that Decode accepts.
func Schema(defaults any, at string, describe func(path string) string) map[string]any {
	return schemas{describe}.section(reflect.Indirect(reflect.ValueOf(defaults)), at)
}

type schemas struct {
	describe func(path string) string
}

// section is the schema of a mapping that is decoded into the struct v.
func (s schemas) section(v reflect.Value, at string) map[string]any {
	fields, rest := fieldsOf(v.Type())
	properties := make(map[string]any)
	for _, f := range fields {
		value, path := v.FieldByIndex(f.index), join(at, f.name)
		property := s.value(value, path)
		if text := s.describe(path); text != "" {
			property["description"] = text
		}
		if d := defaultOf(value); d != nil {
			property["default"] = d
		}
		properties[f.name] = property
	}
	section := ofType("object")
	section["properties"] = properties
	if rest == noRest {
		section["additionalProperties"] = false
	}
	return section
}

// value is the schema of a value of v's type, whose default is v.
func (s schemas) value(v reflect.Value, at string) map[string]any {
	t := v.Type()
	if t == nodeType {
		return map[string]any{}
	}
	if _, ok := reflect.New(t).Interface().(encoding.TextUnmarshaler); ok {
		return ofType("string", "number", "boolean")
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
		list := ofType("array")
		list["items"] = s.value(reflect.Zero(t.Elem()), at+"[]")
		return list
	case reflect.Map:
		members := ofType("object")
		members["additionalProperties"] = s.value(reflect.Zero(t.Elem()), at+".*")
		return members
	case reflect.String:
		return ofType("string")
	case reflect.Bool:
		return ofType("boolean")
	}
	return ofType("integer")
}

// ofType is the schema of a value of one of types. Null stands for the default of every key.
func ofType(types ...string) map[string]any {
	return map[string]any{"type": append(types, "null")}
}

// defaultOf is v as a schema has it, nil for no value.
func defaultOf(v reflect.Value) any {
	if v.Kind() == reflect.Bool {
		return v.Bool()
	}
	if v.IsZero() {
		return nil
	}
	if m, ok := marshaler(v); ok {
		text, err := m.MarshalText()
		if err != nil {
			return nil
		}
		return string(text)
	}
	switch {
	case v.Kind() == reflect.String:
		return v.String()
	case v.CanInt():
		return v.Int()
	}
	return nil
}
