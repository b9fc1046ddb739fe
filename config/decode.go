package config

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Decode fills the struct behind into from n and reports everything that does not fit, in
// the order of the file. The values that into already has are the defaults: they stay where
// a key is absent or null. After a problem, use into only to look for more problems.
//
// A struct field takes part by its tag `yaml:"name"` and takes
//
//   - structs, and pointers to anything here, allocated when the key has a value;
//   - slices and maps with string keys, which replace a default as a whole;
//   - strings, booleans and integers of any size;
//   - types with UnmarshalText, which get a single value as it is written;
//   - Node, for a value that is decoded later.
//
// One field of type map[string]Node may have the tag `yaml:",rest"`: it receives
// the keys that no other field has. Without one they are problems. A section that is Reduced
// says what to do instead of a key that it once had.
//
// Decode panics when into is not a pointer or holds another type: that is a
// mistake in the program, not in the document.
func (n Node) Decode(into any) Problems {
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		panic(fmt.Sprintf("config: decode into %T: must be a pointer", into))
	}
	var d decoder
	d.value(n, v.Elem())
	return d.problems
}

var (
	nodeType = reflect.TypeFor[Node]()
	restType = reflect.TypeFor[map[string]Node]()
)

type decoder struct{ problems Problems }

func (d *decoder) addf(n Node, format string, args ...any) {
	d.problems = append(d.problems, n.Problemf(format, args...))
}

// value decodes n into v, which is settable.
func (d *decoder) value(n Node, v reflect.Value) {
	if v.Type() == nodeType {
		v.Set(reflect.ValueOf(n))
		return
	}
	if n.isNull() {
		return
	}
	if into, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		d.text(n, into)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		d.value(n, v.Elem())
	case reflect.Struct:
		d.structure(n, v)
	case reflect.Slice:
		d.slice(n, v)
	case reflect.Map:
		d.stringMap(n, v)
	case reflect.String:
		d.stringValue(n, v)
	case reflect.Bool:
		if !n.is(yaml.ScalarNode) || n.yaml.Tag != boolTag {
			d.addf(n, "must be true or false, not %s", n.kind())
			return
		}
		v.SetBool(strings.EqualFold(n.yaml.Value, "true"))
	default:
		d.integer(n, v)
	}
}

func (d *decoder) text(n Node, into encoding.TextUnmarshaler) {
	if !n.is(yaml.ScalarNode) {
		d.addf(n, "must be a single value, not %s", n.kind())
		return
	}
	if err := into.UnmarshalText([]byte(n.yaml.Value)); err != nil {
		d.addf(n, "%v", err)
	}
}

func (d *decoder) structure(n Node, v reflect.Value) {
	if !n.is(yaml.MappingNode) {
		d.addf(n, "must be a mapping, not %s", n.kind())
		return
	}
	fields, rest := fieldsOf(v.Type())
	for key, member := range n.members() {
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == key })
		switch {
		case i >= 0:
			d.value(member, v.FieldByIndex(fields[i].index))
		case rest != noRest:
			addRest(v.Field(rest), key, member)
		default:
			d.unknown(n, v, key, member, names(fields))
		}
	}
}

// Reduced is a section that had more keys in earlier versions. FormerKeys returns for each
// of them the problem that a document with it has: a sentence that says what to do instead.
type Reduced interface{ FormerKeys() map[string]string }

func (d *decoder) unknown(n Node, section reflect.Value, key string, member Node, known []string) {
	if r, ok := section.Interface().(Reduced); ok && r.FormerKeys()[key] != "" {
		d.addf(member, "%s", r.FormerKeys()[key])
		return
	}
	d.problems = append(d.problems, UnknownKey(n, key, known))
}

// addRest puts a member into the field tagged ",rest".
func addRest(v reflect.Value, key string, member Node) {
	if v.Type() != restType {
		panic(fmt.Sprintf("config: field with tag \",rest\" is a %s: must be a %s", v.Type(), restType))
	}
	if v.IsNil() {
		v.Set(reflect.MakeMap(restType))
	}
	v.SetMapIndex(reflect.ValueOf(key), reflect.ValueOf(member))
}

func (d *decoder) slice(n Node, v reflect.Value) {
	if !n.is(yaml.SequenceNode) {
		d.addf(n, "must be a list, not %s", n.kind())
		return
	}
	items := n.Items()
	if len(items) == 0 {
		v.SetZero() // nil is the empty list, so that what Encode wrote reads back equal
		return
	}
	s := reflect.MakeSlice(v.Type(), len(items), len(items))
	for i, item := range items {
		d.element(item, s.Index(i))
	}
	v.Set(s)
}

func (d *decoder) stringMap(n Node, v reflect.Value) {
	if v.Type().Key().Kind() != reflect.String {
		panic(fmt.Sprintf("config: decode into %s: keys must be strings", v.Type()))
	}
	if !n.is(yaml.MappingNode) {
		d.addf(n, "must be a mapping, not %s", n.kind())
		return
	}
	m := reflect.MakeMap(v.Type())
	for key, member := range n.members() {
		element := reflect.New(v.Type().Elem()).Elem()
		d.element(member, element)
		m.SetMapIndex(reflect.ValueOf(key).Convert(v.Type().Key()), element)
	}
	if m.Len() == 0 {
		m = reflect.Zero(v.Type()) // as for a list: nothing is nil, however it is written
	}
	v.Set(m)
}

// element decodes an item of a list or map. It has no default to keep, so that
// null is no value for it: most often a "- " that was left behind.
func (d *decoder) element(n Node, v reflect.Value) {
	if n.isNull() {
		d.addf(n, "must have a value")
		return
	}
	d.value(n, v)
}

// stringValue refuses text that YAML takes for something else. Which text that
// is few people know (version: 1.10 would arrive as it is written here, and as
// 1.1 elsewhere), so that quotes are asked for.
func (d *decoder) stringValue(n Node, v reflect.Value) {
	if !n.is(yaml.ScalarNode) {
		d.addf(n, "must be a string, not %s", n.kind())
		return
	}
	switch n.yaml.Tag {
	case boolTag, intTag, floatTag, timeTag:
		d.addf(n, "must be a string: put it in quotes")
	default:
		v.SetString(n.yaml.Value)
	}
}

// integer takes decimal numbers only: YAML reads 010 as eight.
func (d *decoder) integer(n Node, v reflect.Value) {
	lowest, highest := integerRange(v)
	if !n.is(yaml.ScalarNode) || n.yaml.Tag != intTag {
		d.addf(n, "must be a whole number, not %s", n.kind())
		return
	}
	text := n.yaml.Value
	if digits := strings.TrimPrefix(text, "-"); strings.Trim(digits, "0123456789") != "" || len(digits) > 1 && digits[0] == '0' {
		d.addf(n, "must be a whole number in decimal digits")
		return
	}
	var err error
	if v.CanInt() {
		var i int64
		if i, err = strconv.ParseInt(text, 10, v.Type().Bits()); err == nil {
			v.SetInt(i)
		}
	} else {
		var u uint64
		if u, err = strconv.ParseUint(text, 10, v.Type().Bits()); err == nil {
			v.SetUint(u)
		}
	}
	if err != nil {
		d.addf(n, "must be between %d and %d", lowest, highest)
	}
}

// integerRange is what v can hold. It panics when v is no integer.
func integerRange(v reflect.Value) (lowest int64, highest uint64) {
	switch {
	case v.CanInt():
		lowest = math.MinInt64 >> (64 - v.Type().Bits())
		return lowest, uint64(-(lowest + 1))
	case v.CanUint():
		return 0, math.MaxUint64 >> (64 - v.Type().Bits())
	}
	panic(fmt.Sprintf("config: decode into %s: not a type that a configuration can have", v.Type()))
}
