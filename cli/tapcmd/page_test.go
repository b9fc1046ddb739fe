package tapcmd

import (
	"encoding"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/config"
)

// TestPage compares docs/tap.md with the keys that Load knows, their defaults, their flags,
// and the metrics that there are.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/tap.md")
	if err != nil {
		t.Fatal(err)
	}
	c := defaultConfig()
	c.Docket.TLS = &config.TLS{}
	defaults := make(map[string]string)
	keysOf("", reflect.ValueOf(c), defaults)
	delete(defaults, "apiVersion")
	delete(defaults, "kind")
	cmd := New()
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]+) \\|([^|]*)\\| [^|]+ \\|$").FindAllStringSubmatch(string(page), -1) {
		key, value := row[1], strings.Trim(row[2], "`")
		want, known := defaults[key]
		delete(defaults, key)
		if !known || want != value && (want != "" || !slices.Contains([]string{"-", "required"}, value)) {
			t.Errorf("%s: got the default %s, want %q of a key that there is: %t", key, value, want, known)
		}
		flag := strings.TrimPrefix(strings.Trim(strings.TrimSpace(row[3]), "`"), "--")
		if flagOf[key] != flag || flag != "" && cmd.Flags().Lookup(flag) == nil {
			t.Errorf("%s: got the flag %q, want %q", key, flag, flagOf[key])
		}
	}
	for _, key := range slices.Sorted(maps.Keys(defaults)) {
		t.Errorf("got no row for the key %s", key)
	}

	m := newMetrics()
	m.registerClient(nil)
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `(docket_tap_[a-z_]+)").FindAllStringSubmatch(string(page), -1)
	documented := make(map[string]bool)
	for _, row := range rows {
		documented[row[1]] = true
	}
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "docket_tap_") && !documented[f.GetName()] {
			t.Errorf("got no row for the metric %s", f.GetName())
		}
		delete(documented, f.GetName())
	}
	for name := range documented {
		t.Errorf("got a row for the metric %s, which there is not", name)
	}
}

// The file on the page is one that can be loaded.
func TestPageFile(t *testing.T) {
	page, err := os.ReadFile("../../docs/tap.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "```yaml\n")
	text, _, _ = strings.Cut(text, "```")
	if c, problems := Load([]byte(text)); len(problems) > 0 || c.Preset != "gatekeeper" {
		t.Errorf("got %v, want a configuration", problems)
	}
}

// keysOf puts the defaults of all keys in v into keys.
func keysOf(path string, v reflect.Value, keys map[string]string) {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if m, ok := v.Interface().(encoding.TextMarshaler); ok {
		text, _ := m.MarshalText()
		keys[path] = string(text)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Field(i).Tag.Get("yaml")
			keysOf(strings.TrimPrefix(path+"."+name, "."), v.Field(i), keys)
		}
	case reflect.Slice:
		keys[path] = strings.ReplaceAll(fmt.Sprint(v.Interface()), " ", ", ")
	default:
		keys[path] = fmt.Sprint(v.Interface())
	}
}
