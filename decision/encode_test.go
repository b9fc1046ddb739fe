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

// Every byte at every place of every short string: what is taken eight bytes at
// a time, or four, must be seen wherever it stands.
func TestAppendLineEscapes(t *testing.T) {
	for c := range 256 {
		for length := 1; length <= 20; length++ {
			for at := range length {
				text := []byte(strings.Repeat("x", length))
				text[at] = byte(c)
				checkLine(t, &decision.Record{Message: string(text)})
			}
		}
	}
	// No second character may hide behind a first.
	for c := range 256 {
		checkLine(t, &decision.Record{Message: string([]byte{'\\', byte(c), byte(c), '"', byte(c), 'x', 'y', 'z', byte(c)})})
		checkLine(t, &decision.Record{Message: string([]byte{'"', '#', byte(c), 0x7f, byte(c) ^ 1, ']', '\\', ']', byte(c)})})
	}
	for _, text := range []string{
		"ünï 中文 \U0001f600", "\u2027\u2028\u2029\u202a", "\ufffd", "\xef\xbf", "\xe2\x80", "\xed\xa0\x80", "\xc0\x80", "\xf4\x90\x80\x80",
		"long enough to be taken in words, and then \u2028 and \xff and \x00 <&>",
	} {
		checkLine(t, &decision.Record{Message: text, Cluster: text + "x", Pod: "seven b" + text})
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
		"trailing zeros":      time.Date(2026, 1, 5, 10, 4, 7, 120000000, time.UTC),
		"east":                time.Date(2026, 1, 5, 10, 4, 7, 1, time.FixedZone("", 5*3600+1800)),
		"west":                time.Date(2026, 1, 5, 10, 4, 7, 1, time.FixedZone("", -9*3600)),
		"zone without offset": time.Date(2026, 1, 5, 10, 4, 7, 1, time.FixedZone("GMT", 0)),
		"seconds of a zone":   time.Date(1900, 1, 5, 10, 4, 7, 1, time.FixedZone("", 1172)),
		"farthest zone":       time.Date(2026, 1, 5, 10, 4, 7, 1, time.FixedZone("", -24*3600+1)),
		"first year":          time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC),
		"last moment":         time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC),
		"not set":             {},
		"not set, far zone":   time.Time{}.In(time.FixedZone("", 30*3600)),
		"with monotonic":      time.Now(),
		"not set, long zone":  time.Time{}.In(time.FixedZone("", -400*24*3600)),
	}
	for name, timestamp := range tests {
		t.Run(name, func(t *testing.T) { checkLine(t, &decision.Record{Timestamp: timestamp}) })
	}
}

// Days and hours of all the years that RFC 3339 can express.
func TestAppendLineDates(t *testing.T) {
	const step = 53*24*time.Hour + 7*time.Hour + 13*time.Minute + 29*time.Second + 98765432*time.Nanosecond
	end := time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	for at := time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC); at.Before(end); at = at.Add(step) {
		r := decision.Record{Timestamp: at}
		line, err := r.AppendLine(nil)
		want := `{"timestamp":"` + at.Format(time.RFC3339Nano) + `","schemaVersion":1}` + "\n"
		if err != nil || string(line) != want {
			t.Fatalf("got %s, %v, want %s", line, err, want)
		}
	}
	for _, at := range []time.Time{end, end.Add(time.Hour).In(time.FixedZone("", 1)), time.Date(-1, 12, 31, 23, 59, 59, 999999999, time.UTC)} {
		r := decision.Record{Timestamp: at}
		if line, err := r.AppendLine(nil); err == nil || r.Validate() == nil {
			t.Errorf("%v: got accepted in %s, want refused", at, line)
		}
	}
}

// Whatever room dst has, the line is the same, and what stood before it stays.
func TestAppendLineGrows(t *testing.T) {
	r := full()
	r.Message += "\x00\xff"
	want, err := r.AppendLine([]byte("before\n"))
	if err != nil {
		t.Fatal(err)
	}
	for room := range len(want) + 10 {
		dst := append(make([]byte, 0, len("before\n")+room), "before\n"...)
		got, err := r.AppendLine(dst)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("with room for %d bytes: got %q, %v\nwant %q", room, got, err, want)
		}
	}
}

func TestAppendLineReportsEveryFault(t *testing.T) {
	r := decision.Record{
		SchemaVersion: 9, // not a fault: the line gets its own
		Decision:      "x",
		Process:       "y",
		Details:       json.RawMessage("z"),
		Timestamp:     time.Date(2026, 1, 1, 0, 0, 0, 0, time.FixedZone("", 25*3600)),
	}
	got, err := r.AppendLine([]byte("before\n"))
	want := "record: " + strings.Join([]string{
		`decision: must be allow, deny, warn, dryrun or error, not "x"`,
		`process: must be admission or audit, not "y"`,
		"details: must be one JSON value in UTF-8",
		"timestamp: the time zone must be less than 24h from UTC, not 25h0m0s",
	}, "\n")
	if err == nil || err.Error() != want {
		t.Errorf("got error\n%v\nwant\n%s", err, want)
	}
	if string(got) != "before\n" {
		t.Errorf("got %q, want what stood there before", got)
	}
}

func TestAppendLineAllocatesNothing(t *testing.T) {
	dst := make([]byte, 0, 4<<10)
	r := denied()
	r.Details = json.RawMessage(`{ "missing_labels": [ "team" ] }`)
	perLine := testing.AllocsPerRun(100, func() {
		onStack := r // counted, should AppendLine let its record escape
		if _, err := onStack.AppendLine(dst); err != nil {
			t.Fatal(err)
		}
	})
	if perLine != 0 {
		t.Errorf("got %v allocations for a line, want 0", perLine)
	}
}
