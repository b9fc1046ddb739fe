package querycmd

import (
	"context"
	encoding "encoding/csv"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/decision/rawjson"
)

const (
	ofEngine  = `{"decision_id":"d-1","timestamp":"2026-03-01T01:00:00+01:00","path":"authz/allow","result":false,"input":{"user":"alice"}}`
	ofNobody  = `{"text":"x"}`
	ofStamp   = `{"text":"x","_docket":{"id":"q-1","seq":1,"source":"s","received":"2026-03-02T00:00:00.5Z"}}`
	ofBoth    = `{"decision_id":"d-2","timestamp":"2026-03-01T00:00:00Z","_docket":{"received":"2026-03-02T00:00:00Z"}}`
	ofNoStamp = `{"text":"x","_docket":{"received":"yesterday"}}`
)

func day(n int) time.Time { return time.Date(2026, 3, n, 0, 0, 0, 0, time.UTC) }

// A record's time is its own, else that of its stamp, else when it was received.
func TestMoment(t *testing.T) {
	received := stored{received: day(3)}
	bounded := stored{first: day(4), last: day(6)}
	for name, tt := range map[string]struct {
		record string
		stored stored
		want   moment
	}{
		"its own":          {ofEngine, received, moment{day(1), day(1), fromRecord}},
		"its own, stamped": {ofBoth, received, moment{day(1), day(1), fromRecord}},
		"the stamp":        {ofStamp, received, moment{day(2).Add(500 * time.Millisecond), day(2).Add(500 * time.Millisecond), fromStamp}},
		"no stamp":         {ofNoStamp, received, moment{day(3), day(3), fromReceived}},
		"received":         {ofNobody, received, moment{day(3), day(3), fromReceived}},
		"the file":         {ofNobody, bounded, moment{day(4), day(6), fromFile}},
		"unknown":          {ofNobody, stored{}, moment{}},
	} {
		form, _ := decision.Normalize([]byte(tt.record))
		tt.stored.line = []byte(tt.record)
		if got := tt.stored.moment(&form); got != tt.want {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
}

// --from is inclusive and --to exclusive. A record that may be from within is not left out.
func TestWithin(t *testing.T) {
	never := time.Time{}
	at := func(from, until int) moment { return moment{day(from), day(until), fromFile} }
	for _, tt := range []struct {
		moment   moment
		from, to time.Time
		in, sure bool
	}{
		{at(2, 2), day(2), day(3), true, true},
		{at(3, 3), day(2), day(3), false, false},
		{at(1, 1), day(2), day(3), false, false},
		{at(1, 1), never, day(3), true, true},
		{at(3, 3), never, day(3), false, false},
		{at(3, 3), day(2), never, true, true},
		{at(1, 1), day(2), never, false, false},
		{at(1, 1), never, never, true, true},
		{at(1, 2), day(2), day(4), true, false},
		{at(3, 4), day(2), day(4), true, false},
		{at(2, 3), day(2), day(4), true, true},
		{at(1, 5), day(2), day(4), true, false},
		{at(4, 5), day(2), day(4), false, false},
		{moment{}, day(2), day(4), true, false},
		{moment{}, never, day(4), true, false},
		{moment{}, never, never, true, true},
	} {
		in, sure := tt.moment.isWithin(tt.from, tt.to)
		if in != tt.in || in && sure != tt.sure {
			t.Errorf("%v within %v and %v: got %t, %t, want %t, %t", tt.moment, tt.from, tt.to, in, sure, tt.in, tt.sure)
		}
	}
}

func TestParseBound(t *testing.T) {
	now := day(20)
	for text, want := range map[string]time.Time{
		"": {}, "2026-03-02T00:00:00Z": day(2), "2026-03-02T02:00:00+02:00": day(2), "2026-03-02": day(2), "2026-03": day(1),
		"24h": day(19), "7d": day(13), "0d": day(20),
	} {
		if got, err := parseBound("--from", text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: got %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"yesterday", "-24h", "0s", "7", "d", "-1d", "2026", "2026-13", "99999999d"} {
		if got, err := parseBound("--to", text, now); err == nil || !strings.Contains(err.Error(), "--to \""+text) {
			t.Errorf("%q: got %v, %v, want an error that names it", text, got, err)
		}
	}
}

// write returns what is written of records in a form.
func write(t *testing.T, form form, records ...string) string {
	t.Helper()
	s := search{out: writer{form: form}}
	return found(t, &s, []part{lines(records)})
}

// lines are records of nowhere.
type lines []string

func (l lines) read(_ context.Context, take func(stored) error) error {
	for _, line := range l {
		if err := take(stored{line: []byte(line)}); err != nil {
			return err
		}
	}
	return nil
}

func TestCSV(t *testing.T) {
	got := write(t, csv, ofNobody, ofEngine, ofStamp)
	want := "time,timeFrom,engine,process,decision,policy.group,policy.kind,policy.name,resource.group,resource.version,resource.kind,resource.plural," +
		"resource.subresource,resource.namespace,resource.name,user,operation,id,message,failedOpen\r\n" +
		",,,,,,,,,,,,,,,,,,,\r\n" +
		"2026-03-01T00:00:00Z,record,opa,,deny,,,authz/allow,,,,,,,,alice,,d-1,,\r\n" +
		"2026-03-02T00:00:00.5Z,stamp,,,,,,,,,,,,,,,,,,\r\n"
	if got != want {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
	if got, want := write(t, csv), want[:strings.Index(want, "\r\n")+2]; got != want {
		t.Errorf("nothing found: got %q, want the header", got)
	}
}

// Whatever a producer writes is one field for every reader, and a formula for none.
func TestCSVIsSafe(t *testing.T) {
	for text, want := range map[string]string{
		"plain":                      "plain",
		`a "quote", a comma`:         `a "quote", a comma`,
		"two\nlines":                 "two\nlines",
		"=1+1":                       "'=1+1",
		"+1":                         "'+1",
		"-1":                         "'-1",
		"@SUM(A1)":                   "'@SUM(A1)",
		"\t=1":                       "'\t=1",
		"\r=1":                       "'\r=1",
		"＝1+1":                       "'＝1+1",
		`=HYPERLINK("http://x","y")`: `'=HYPERLINK("http://x","y")`,
		"1=1":                        "1=1",
		"'=1":                        "'=1",
	} {
		got := write(t, csv, fmt.Sprintf(`{"decision_id":"d","result":{"reason":"x"},"input":{"user":%s}}`, jsonOf(text)))
		rows, err := encoding.NewReader(strings.NewReader(strings.ReplaceAll(got, "\r=", "\x01="))).ReadAll()
		if err != nil || len(rows) != 2 || strings.ReplaceAll(rows[1][15], "\x01", "\r") != want {
			t.Errorf("%q: got %q, %v, want the user %q", text, rows, err, want)
		}
	}
}

// What an expression cannot judge is not found, and counted.
func TestUnjudged(t *testing.T) {
	records := lines{`{"a":1}`, `{"a":2,"b":2,"c":"d"}`, `{"a":3,"e":"d"}`, `{"f":"d"}`}
	s := search{filter: compiled(t, `record.c == "d" && record.b == 2`), out: writer{form: ndjson}}
	got := found(t, &s, []part{records})
	var said strings.Builder
	err := s.report.say(func(format string, args ...any) { fmt.Fprintf(&said, format, args...) })
	if got != "{\"a\":2,\"b\":2,\"c\":\"d\"}\n" || err != nil || said.String() != "note: 3 records left out: --when cannot be evaluated; the first error: no such key: c" {
		t.Errorf("got %q, %v and %q", got, err, said.String())
	}
}

func jsonOf(text string) string { return string(rawjson.AppendString(nil, text)) }
