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

// Two parts must not listen at one address or read one path. The URL path of a server is
// not a claim: each server has its own.
func TestClaims(t *testing.T) {
	for name, test := range map[string]struct{ sources, want string }{
		"one URL path":    {"- {name: a, opa: {address: 127.0.0.1:1, path: /logs}}\n- {name: b, opa: {address: 127.0.0.1:2, path: /logs}}", ""},
		"one address":     {"- {name: a, opa: {address: 127.0.0.1:1}}\n- {name: b, kubernetesAudit: {address: 127.0.0.1:1}}", "sources[1].kubernetesAudit.address: must be unique: sources[0].opa has this address"},
		"one file":        {"- {name: a, tail: {path: /a/b, format: json}}\n- {name: b, tail: {path: /a/../a/b, format: json}}", "sources[1].tail.path: must be unique: sources[0].tail has this path"},
		"one export":      {"- {name: a, gatekeeper: {path: /t}}\n- {name: b, gatekeeper: {path: /t}}", "sources[1].gatekeeper.path: must be unique: sources[0].gatekeeper has this path"},
		"file and socket": {"- {name: a, unix: {path: /s}}\n- {name: b, tail: {path: /s, format: json}}", "sources[1].tail.path: must be unique: sources[0].unix has this path"},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems := exporter.Load([]byte("apiVersion: docket.dev/v1alpha1\nkind: Exporter\nqueue: {directory: /q}\nsinks: [{name: out, stdout: }]\nsources:\n"+test.sources+"\n"), Kinds())
			got := ""
			for _, p := range problems {
				got += p.Path + ": " + p.Text
			}
			if got != test.want {
				t.Errorf("got the problems %q, want %q", got, test.want)
			}
		})
	}
}
