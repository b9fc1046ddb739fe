package config

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// FileUse is one file that a configuration names and that docket reads.
type FileUse struct {
	Path   string // where the configuration names it, as "sinks[1].http.tls.keyFile"
	File   string // its path on disk
	Secret bool   // nobody else should be able to read it
}

// Check returns why this process cannot read the file, with what to do, and nil if it
// can. It does not look at the content.
func (u FileUse) Check() error {
	_, err := readFile(u.File, maxPEMBytes)
	return err
}

// Files lists the files that v, a configuration or a part of one, names: each SecretFile,
// and each text whose field has the tag file:"secret" or file:"public". The order is the
// order of the fields; keys of a map are sorted. Names that are empty are left out.
// Nothing on disk is looked at.
func Files(v any) []FileUse { return filesIn(nil, "", reflect.ValueOf(v)) }

var secretFileType = reflect.TypeFor[SecretFile]()

func filesIn(files []FileUse, at string, v reflect.Value) []FileUse {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return filesIn(files, at, v.Elem())
	case reflect.Struct:
		return filesInStruct(files, at, v)
	case reflect.Slice:
		for i := range v.Len() {
			files = filesIn(files, at+"["+strconv.Itoa(i)+"]", v.Index(i))
		}
	case reflect.Map:
		members := maps.Collect(v.Seq2())
		byName := func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) }
		for _, key := range slices.SortedFunc(maps.Keys(members), byName) {
			files = filesIn(files, join(at, key.String()), members[key])
		}
	case reflect.String:
		if v.Type() == secretFileType && v.String() != "" {
			files = append(files, FileUse{Path: at, File: v.String(), Secret: true})
		}
	}
	return files
}

func filesInStruct(files []FileUse, at string, v reflect.Value) []FileUse {
	fields, rest := fieldsOf(v.Type())
	for _, f := range fields {
		value, tag := v.FieldByIndex(f.index), v.Type().FieldByIndex(f.index).Tag.Get("file")
		if tag == "" {
			files = filesIn(files, join(at, f.name), value)
		} else if value.String() != "" {
			files = append(files, FileUse{Path: join(at, f.name), File: value.String(), Secret: tag == "secret"})
		}
	}
	if rest != noRest {
		files = filesIn(files, at, v.Field(rest))
	}
	return files
}
