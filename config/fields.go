package config

import (
	"fmt"
	"reflect"
	"strings"
)

// field is a struct field that has a key.
type field struct {
	name  string
	index []int // for reflect.Value.FieldByIndex
}

// noRest stands for the index of a field tagged ",rest" where there is none.
const noRest = -1

// fieldsOf returns the fields of the struct t that have a key, in their order,
// and the index of the one that holds all other keys. The fields of a struct tagged
// ",inline" count as fields of t. Fields without a tag are not for the configuration.
func fieldsOf(t reflect.Type) (fields []field, rest int) {
	rest = noRest
	for i := range t.NumField() {
		f := t.Field(i)
		name, option, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case name == "-" || name == "" && option == "":
		case !f.IsExported():
			panic(fmt.Sprintf("config: %s.%s has a yaml tag: must be exported", t, f.Name))
		case name == "" && option == "rest":
			rest = i
		case name == "" && option == "inline":
			inner, _ := fieldsOf(f.Type)
			for _, in := range inner {
				fields = append(fields, field{name: in.name, index: append([]int{i}, in.index...)})
			}
		case option == "":
			fields = append(fields, field{name: name, index: []int{i}})
		default:
			panic(fmt.Sprintf("config: %s.%s: unknown yaml tag %q", t, f.Name, f.Tag.Get("yaml")))
		}
	}
	return fields, rest
}

// Keys returns the keys of a section that is decoded into T, in the order of its fields.
func Keys[T any]() []string {
	fields, _ := fieldsOf(reflect.TypeFor[T]())
	return names(fields)
}

func names(fields []field) []string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	return names
}
