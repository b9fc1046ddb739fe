package builtin

import (
	"reflect"
	"strings"
	"testing"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/exporter/redact"
)

// Every key that names a file is one that config.Files lists: docket check looks at the
// files of that list alone.
func TestEveryFileKeyIsListed(t *testing.T) {
	parts := map[string]reflect.Type{"admin": reflect.TypeFor[exporter.AdminConfig](), "redact": reflect.TypeFor[redact.Rule]()}
	for _, d := range Kinds().Sources {
		parts[d.Kind] = reflect.TypeOf(d.NewConfig())
	}
	for _, d := range Kinds().Sinks {
		parts[d.Kind] = reflect.TypeOf(d.NewConfig())
	}
	keys := 0
	for name, part := range parts {
		eachKey(name, part, func(key string, f reflect.StructField) {
			if !strings.HasSuffix(key, "File") {
				return
			}
			keys++
			if tag := f.Tag.Get("file"); f.Type != reflect.TypeFor[config.SecretFile]() && tag != "secret" && tag != "public" {
				t.Errorf(`%s: config.Files does not list it: make it a config.SecretFile, or give it a tag file:"secret" or file:"public"`, key)
			}
		})
	}
	if keys < 20 {
		t.Errorf("found %d keys of files, want at least 20", keys)
	}
}

// eachKey calls do for every key below at.
func eachKey(at string, t reflect.Type, do func(key string, f reflect.StructField)) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		eachKey(at, t.Elem(), do)
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			if name, _, _ := strings.Cut(f.Tag.Get("yaml"), ","); name != "" && name != "-" {
				do(at+"."+name, f)
				eachKey(at+"."+name, f.Type, do)
			}
		}
	}
}
