package config

import (
	"bytes"
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// Encode writes v as YAML that Decode reads back into an equal value. It goes by
// the same tags, in the order of the fields; the keys of a map, and of the field
// tagged ",rest", are sorted. A nil pointer or interface and a zero Node are left
// out; a nil list or map is written as an empty one. Secrets do not occur: a configuration holds the paths of their files.
//
// It fails as a MarshalText does, and for text that is not UTF-8. Encode panics for a type that a
// configuration cannot have.
func Encode(v any) ([]byte, error) {
	n, err := encode(reflect.ValueOf(v))
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	e.CompactSeqIndent()
	if err := e.Encode(n); err != nil {
		return nil, fmt.Errorf("write yaml: %w", err)
	}
	if err := e.Close(); err != nil {
		return nil, fmt.Errorf("write yaml: %w", err)
	}
	return b.Bytes(), nil
}

// encode returns nil for what is left out.
func encode(v reflect.Value) (*yaml.Node, error) {
	if !v.IsValid() || (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) && v.IsNil() {
		return nil, nil
	}
	if n, ok := v.Interface().(Node); ok {
		return n.yaml, nil
	}
	if m, ok := marshaler(v); ok {
		text, err := m.MarshalText()
		return scalar(strTag, string(text)), err
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return encode(v.Elem())
	case reflect.Struct:
		return encodeStruct(v)
	case reflect.Slice:
		return encodeSlice(v)
	case reflect.Map:
		n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		return n, encodeMembers(n, v)
	case reflect.String:
		return scalar(strTag, v.String()), nil
	case reflect.Bool:
		return scalar(boolTag, strconv.FormatBool(v.Bool())), nil
	}
	if v.CanInt() {
		return scalar(intTag, strconv.FormatInt(v.Int(), 10)), nil
	}
	if v.CanUint() {
		return scalar(intTag, strconv.FormatUint(v.Uint(), 10)), nil
	}
	panic(fmt.Sprintf("config: encode %s: not a type that a configuration can have", v.Type()))
}

// marshaler finds MarshalText whether v or a pointer to v has it.
func marshaler(v reflect.Value) (encoding.TextMarshaler, bool) {
	if v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		return nil, false
	}
	p := reflect.New(v.Type())
	p.Elem().Set(v)
	m, ok := p.Interface().(encoding.TextMarshaler)
	return m, ok
}

func encodeStruct(v reflect.Value) (*yaml.Node, error) {
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	fields, rest := fieldsOf(v.Type())
	for _, f := range fields {
		if err := encodeMember(n, f.name, v.FieldByIndex(f.index)); err != nil {
			return nil, err
		}
	}
	if rest != noRest {
		return n, encodeMembers(n, v.Field(rest))
	}
	return n, nil
}

// encodeMembers appends the members of the map v to n.
func encodeMembers(n *yaml.Node, v reflect.Value) error {
	members := make(map[string]reflect.Value, v.Len())
	for key, member := range v.Seq2() {
		members[key.String()] = member
	}
	for _, key := range slices.Sorted(maps.Keys(members)) {
		if err := encodeMember(n, key, members[key]); err != nil {
			return err
		}
	}
	return nil
}

func encodeMember(n *yaml.Node, key string, v reflect.Value) error {
	value, err := encode(v)
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	if value != nil {
		n.Content = append(n.Content, scalar(strTag, key), value)
	}
	return nil
}

func encodeSlice(v reflect.Value) (*yaml.Node, error) {
	n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	for i := range v.Len() {
		item, err := encode(v.Index(i))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", indexPath(i), err)
		}
		if item != nil {
			n.Content = append(n.Content, item)
		}
	}
	return n, nil
}

// scalar is a single value. The library puts a string in quotes where YAML would
// take it for something else, but writes some strings with newlines and tabs as
// blocks that it cannot read back.
func scalar(tag, text string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: text}
	if strings.ContainsFunc(text, unicode.IsControl) {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}
