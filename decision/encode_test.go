package decision_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/decision"
)

// checkLine compares the line of r with what encoding/json makes of it.
func checkLine(t *testing.T, r *decision.Record) {
	t.Helper()
	var want bytes.Buffer
	if err := encodeReference(&want, r); err != nil {
		t.Fatal(err)
	}
	got, err := r.AppendLine(nil)
	if err != nil {
		t.Errorf("got error %v, want %q", err, want.Bytes())
	} else if !bytes.Equal(got, want.Bytes()) {
		t.Errorf("got  %q\nwant %q", got, want.Bytes())
	}
}

// A field that AppendLine forgets must not go unnoticed: each one by itself is
// in the line, under the name that its tag gives it.
func TestAppendLineWritesEveryField(t *testing.T) {
	for f := range reflect.TypeFor[decision.Record]().Fields() {
		t.Run(f.Name, func(t *testing.T) {
			var r decision.Record
			set(t, reflect.ValueOf(&r).Elem().FieldByIndex(f.Index))
			checkLine(t, &r)
			line, err := r.AppendLine(nil)
			if err != nil {
				t.Fatal(err)
			}
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			var members map[string]json.RawMessage
			if err := json.Unmarshal(line, &members); err != nil {
				t.Fatal(err)
			}
			if members[name] == nil {
				t.Errorf("got %s without %s", line, name)
			}
		})
	}
}

// set gives a field some value that is valid.
func set(t *testing.T, field reflect.Value) {
	t.Helper()
	dryRun := true
	switch v := field.Addr().Interface().(type) {
	case *string:
		*v = "text"
	case *decision.Decision:
		*v = decision.Warn
	case *decision.Process:
		*v = decision.Audit
	case *json.RawMessage:
		*v = json.RawMessage(`{ }`)
	case *[]string:
		*v = []string{"a", "", "b"}
	case *map[string]string:
		*v = map[string]string{"b": "1", "a": "2", "": ""}
	case *time.Time:
		*v = time.Date(2026, 1, 5, 11, 4, 7, 500, time.FixedZone("", 3600))
	case **bool:
		*v = &dryRun
	case *int:
		*v = decision.SchemaVersion
	case *float64:
		*v = 1.5e-7
	case *uint64:
		*v = 1 << 63
	default:
		t.Fatalf("set must learn to set a %s", field.Type())
	}
}

func TestAppendLineSortsMaps(t *testing.T) {
	for _, size := range []int{1, 2, 3, 12, 15, 16, 17, 100} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			labels := make(map[string]string)
			for i := range size {
				labels[fmt.Sprintf("\"%d\xff", i*7919%100)] = strings.Repeat("v", i%11)
			}
			checkLine(t, &decision.Record{ResourceLabels: labels, ConstraintAnnotations: labels})
		})
	}
}

func TestAppendLineTimestamps(t *testing.T) {
	tests := map[string]time.Time{
		"whole second":        time.Date(2026, 1, 5, 10, 4, 7, 0, time.UTC),
		"east":                time.Date(2026, 1, 5, 10, 4, 7, 1, time.FixedZone("", 5*3600+1800)),
		"zone without offset": time.Date(2026, 1, 5, 10, 4, 7, 1, time.FixedZone("GMT", 0)),
		"seconds of a zone":   time.Date(1900, 1, 5, 10, 4, 7, 1, time.FixedZone("", 1172)),
		"not set":             {},
	}
	for name, timestamp := range tests {
		t.Run(name, func(t *testing.T) { checkLine(t, &decision.Record{Timestamp: timestamp}) })
	}
}

// Text is escaped as the standard library would, as a value and as a key.
func FuzzAppendLineText(f *testing.F) {
	for _, text := range []string{"", "a", "12345678", "a\"b\\c\n\x00\x7f<&>", "\u2028中\xff\xed\xa0\x80", "more than eight bytes, \u2029 twice"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		checkLine(t, &decision.Record{
			Message:           text,
			RequestUserGroups: []string{text, "x" + text},
			ResourceLabels:    map[string]string{text: text, text + "x": "", "x": text},
		})
	})
}
