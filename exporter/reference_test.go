package exporter

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
	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/filesink"
	"github.com/docket-export/docket/sinks/httpsink"
	"github.com/docket-export/docket/sinks/kafkasink"
	"github.com/docket-export/docket/sinks/stdoutsink"
	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/gatekeepersource"
	"github.com/docket-export/docket/sources/kubeauditsource"
	"github.com/docket-export/docket/sources/opasource"
	"github.com/docket-export/docket/sources/streamsource"
	"github.com/docket-export/docket/sources/tailsource"
)

var everySource = []sources.Definition{
	streamsource.UnixDefinition, streamsource.TCPDefinition,
	gatekeepersource.Definition, opasource.Definition, kubeauditsource.Definition, tailsource.Definition,
}

var everySink = []sinks.Definition{filesink.Definition, httpsink.Definition, kafkasink.Definition, stdoutsink.Definition}

// TestKeysPage compares docs/keys.md with the keys that Load
// knows, and with their defaults.
func TestKeysPage(t *testing.T) {
	page, err := os.ReadFile("../docs/keys.md")
	if err != nil {
		t.Fatal(err)
	}
	defaults := map[string]string{}
	walkKeys("", reflect.ValueOf(document[sourceEntry[config.Node], sinkEntry[config.Node]]{
		Sources:  []sourceEntry[config.Node]{{}},
		Queue:    defaultQueue(),
		Sinks:    []sinkEntry[config.Node]{{SinkConfig: defaultSink()}},
		Admin:    defaultAdmin(),
		Shutdown: defaultShutdown(),
		Limits:   defaultLimits(),
	}), true, defaults)
	for _, d := range everySource {
		walkKeys("sources[]."+d.Kind, reflect.ValueOf(d.NewConfig()), true, defaults)
	}
	for _, d := range everySink {
		walkKeys("sinks[]."+d.Kind, reflect.ValueOf(d.NewConfig()), true, defaults)
		row := fmt.Sprintf("| `%s` | %d | %s | %s |\n", d.Kind, d.Batch.MaxRecords, d.Batch.MaxBytes, d.Batch.MaxWait)
		if !strings.Contains(string(page), row) {
			t.Errorf("got no row %q, which says how batches of this kind are by default", row)
		}
	}

	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]+) \\| [^|]+ \\|$").FindAllStringSubmatch(string(page), -1)
	for _, row := range rows {
		key, got := row[1], row[2]
		value, known := defaults[key]
		delete(defaults, key)
		if !known {
			if key != "queue.retain" { // a section that is also explained as a whole
				t.Errorf("got the key %s, which there is not, or twice", key)
			}
			continue
		}
		if value == "" && !slices.Contains([]string{"required", "-", "by kind"}, got) || value != "" && got != "`"+value+"`" {
			t.Errorf("%s: got the default %s, want %q", key, got, value)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(defaults)) {
		t.Errorf("got no row for the key %s", key)
	}
}

// walkKeys adds the keys below path with their defaults; "" where there is none,
// as in a section that is absent by default.
func walkKeys(path string, v reflect.Value, present bool, into map[string]string) {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			v, present = reflect.New(v.Type().Elem()), false
		}
		v = v.Elem()
	}
	_, isValue := v.Interface().(encoding.TextMarshaler)
	switch {
	case v.Kind() == reflect.Slice && v.Len() > 0:
		walkKeys(path+"[]", v.Index(0), present, into)
	case v.Kind() == reflect.Struct && !isValue:
		for i := range v.NumField() {
			tag := v.Type().Field(i).Tag.Get("yaml")
			switch {
			case tag == "": // not for the configuration
			case tag == ",rest": // the sections of the kinds
			case tag == ",inline":
				walkKeys(path, v.Field(i), present, into)
			case path == "":
				walkKeys(tag, v.Field(i), present, into)
			default:
				walkKeys(path+"."+tag, v.Field(i), present && tag != "batch", into)
			}
		}
	case present && v.Kind() != reflect.Slice:
		into[path] = fmt.Sprint(v.Interface())
	default:
		into[path] = ""
	}
}

// A source that keeps parts of records as they came has no rules of redaction.
func TestRedactionBesidePartsThatAreKept(t *testing.T) {
	const text = "apiVersion: docket.dev/v1alpha1\nkind: Exporter\nqueue: {directory: /q}\nsinks: [{name: a, stdout: {}}]\n" +
		"sources: [{name: g, redact: [{pointer: /a, action: Remove}], gatekeeper: {path: /v, delta: DELTA}}]\n"
	kinds := Kinds{Sources: everySource, Sinks: everySink}
	for delta, want := range map[string]string{"false": "", "true": "sources[0].redact: cannot be used with gatekeeper.delta"} {
		_, problems := Load([]byte(strings.Replace(text, "DELTA", delta, 1)), kinds)
		if got := problems.Error(); got != "" != (want != "") || !strings.Contains(got, want) {
			t.Errorf("delta %s: got %q, want %q", delta, got, want)
		}
	}
}
