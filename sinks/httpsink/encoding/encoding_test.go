package encoding

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	collogs "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sinks"
)

const queue = "3e0c7a52-6f0b-4a53-9d3e-0b7d5f2a9c11"

// received is when the records of a test came in.
var received = time.Date(2026, 1, 5, 10, 4, 7, 123456789, time.UTC)

// batch makes a batch of these records with seqs from 41 on.
func batch(records ...string) sinks.Batch {
	b := sinks.Batch{Queue: queue}
	for i, r := range records {
		b.Items = append(b.Items, sinks.Item{Seq: uint64(41 + i), Source: "webhook", Received: received, Record: []byte(r)})
	}
	return b
}

// many makes a batch of n records.
func many(n int) sinks.Batch {
	records := make([]string, n)
	for i := range records {
		records[i] = fmt.Sprintf(`{"n":%d}`, i)
	}
	return batch(records...)
}

// exact are records that an encoder which parses them would change.
var exact = []string{
	`{}`,
	`{"a":1.0,"b":1E+2,"c":-0,"d":0.10,"e":12345678901234567890123,"f":1e-7}`,
	`{"z":1,"a":2,"M":3,"_":4,"":5}`,
	`{"a":1,"a":2}`,
	`{"a":"\"\\\/\b\f\n\r\t\u0000\u00e9\uD83D\uDE00"}`,
	`{"a":"\ud800"}`,
	"{\"a\":\"\u00e9\u2028\u2029\u4e16\u754c\U0001f600\x7f\",\"\u00fc\":1}",
	`{"a":"<script>&amp;'%s %d {{.}}'</script>"}`,
	" \t{ \"a\" :\t[ 1 , 2 ] } ",
	"{\"a\":1,\r\"b\":2}\r",
	strings.Repeat(`{"a":[`, 200) + strings.Repeat(`]}`, 200),
}

func mustNew(t testing.TB, name string, c Config) Encoding {
	t.Helper()
	if p := validate(name, c); p != nil {
		t.Fatalf("Validate(%s) = %v, want no problems", name, p)
	}
	e, err := New(name, c)
	if err != nil {
		t.Fatalf("New(%s) = %v, want nil", name, err)
	}
	return e
}

func body(t testing.TB, e Encoding, b sinks.Batch) string {
	t.Helper()
	data, err := e.Append(nil, b)
	if err != nil {
		t.Fatalf("Append = %v, want nil", err)
	}
	return string(data)
}

func wantBody(t *testing.T, e Encoding, b sinks.Batch, want string) {
	t.Helper()
	if got := body(t, e, b); got != want {
		t.Errorf("got the body\n%s\nwant\n%s", got, want)
	}
}

// failureOf fails the test unless err is a failure of this kind, whose text has
// these words.
func failureOf(t *testing.T, err error, kind sinks.Kind, words ...string) *sinks.Failure {
	t.Helper()
	if err == nil {
		t.Fatalf("got nil, want a failure of kind %s", kind)
	}
	f := sinks.FailureOf(err)
	if f.Kind != kind {
		t.Errorf("got kind %s (%v), want %s", f.Kind, err, kind)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("got the error %q, want %q in it", err, w)
		}
	}
	if len(f.Each) != 0 && len(f.Each) != len(f.Items) {
		t.Errorf("got %d answers for %d items, want one for each", len(f.Each), len(f.Items))
	}
	return f
}

// decoders read the records out of a body as a receiver would.
var decoders = map[string]func(body string) ([]string, error){
	ndjsonName: func(body string) ([]string, error) {
		if !strings.HasSuffix(body, "\n") {
			return nil, errors.New("no newline at the end")
		}
		return strings.Split(strings.TrimSuffix(body, "\n"), "\n"), nil
	},
	jsonArrayName: func(body string) ([]string, error) { return rawMembers(body, "") },
	cloudEventsName: func(body string) ([]string, error) {
		return rawMembers(body, "data")
	},
	splunkHECName: func(body string) ([]string, error) {
		return rawMembers("["+strings.TrimSuffix(strings.ReplaceAll(body, "\n", ","), ",")+"]", "event")
	},
	elasticsearchBulkName: func(body string) ([]string, error) {
		var records []string
		lines := strings.Split(strings.TrimSuffix(body, "\n"), "\n")
		for i := 1; i < len(lines); i += 2 {
			records = append(records, lines[i])
		}
		return records, nil
	},
	otlpName: func(body string) ([]string, error) {
		var req collogs.ExportLogsServiceRequest
		return otlpBodies(&req, proto.Unmarshal([]byte(body), &req))
	},
	lokiName: func(body string) ([]string, error) {
		var push struct {
			Streams []struct{ Values [][]json.RawMessage }
		}
		err := json.Unmarshal([]byte(body), &push)
		var records []string
		for _, s := range push.Streams {
			for _, v := range s.Values {
				var line string
				err = errors.Join(err, json.Unmarshal(v[1], &line))
				records = append(records, line)
			}
		}
		return records, err
	},
}

func otlpBodies(req *collogs.ExportLogsServiceRequest, err error) ([]string, error) {
	var records []string
	for _, r := range req.GetResourceLogs() {
		for _, s := range r.GetScopeLogs() {
			for _, l := range s.GetLogRecords() {
				records = append(records, l.GetBody().GetStringValue())
			}
		}
	}
	return records, err
}

// rawMembers are the elements of the array body or, where name is not empty,
// those members of theirs. White space around them is lost, as in any JSON value.
func rawMembers(body, name string) ([]string, error) {
	var records []string
	if name == "" {
		var elements []json.RawMessage
		err := json.Unmarshal([]byte(body), &elements)
		for _, e := range elements {
			records = append(records, string(e))
		}
		return records, err
	}
	var elements []map[string]json.RawMessage
	err := json.Unmarshal([]byte(body), &elements)
	for _, e := range elements {
		records = append(records, string(e[name]))
	}
	return records, err
}

// every returns each encoding with its defaults.
func every(t testing.TB) map[string]Encoding {
	all := map[string]Encoding{}
	for _, name := range Names {
		all[name] = mustNew(t, name, Config{})
	}
	return all
}

func TestRecordsArriveByteForByte(t *testing.T) {
	for name, e := range every(t) {
		t.Run(name, func(t *testing.T) {
			text := body(t, e, batch(exact...))
			got, err := decoders[name](text)
			if err != nil {
				t.Fatalf("the body cannot be read: %v\n%s", err, text)
			}
			want := slices.Clone(exact)
			switch name {
			case jsonArrayName, cloudEventsName, splunkHECName: // in the body as they are, see below
				for i := range want {
					want[i] = strings.Trim(want[i], " \t\r")
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("got the records\n%q\nwant\n%q", got, want)
			}
			if !strings.HasPrefix(name, "otlp") && name != lokiName { // there it is a string
				for _, record := range exact {
					if !strings.Contains(text, record) {
						t.Errorf("the record %q does not stand in the body as it is", record)
					}
				}
			}
		})
	}
}

func TestAppendAppends(t *testing.T) {
	for name, e := range every(t) {
		b := batch(`{"a":1}`, `{"a":2}`)
		want := "before" + body(t, e, b)
		got, err := e.Append([]byte("before"), b)
		if err != nil || string(got) != want {
			t.Errorf("%s: Append = %q, %v, want %q, nil", name, got, err, want)
		}
		if got := body(t, e, sinks.Batch{Queue: queue}); got != "" {
			t.Errorf("%s: got the body %q for no items, want none", name, got)
		}
	}
}

func TestAnyAnswerOfPlainReceivers(t *testing.T) {
	for _, name := range []string{ndjsonName, jsonArrayName, cloudEventsName, lokiName} {
		e := mustNew(t, name, Config{})
		for _, text := range []string{"", "OK", `{"errors":true}`} {
			if err := e.Judge(200, []byte(text), batch(`{}`)); err != nil {
				t.Errorf("%s: Judge(200, %q) = %v, want nil", name, text, err)
			}
		}
		for _, status := range []int{400, 401, 404, 429, 500, 503} {
			if kind, hint, ok := e.Status(status, []byte("no")); ok {
				t.Errorf("%s: Status(%d) = %s, %q, true, want none", name, status, kind, hint)
			}
		}
	}
}

func TestRequest(t *testing.T) {
	for name, want := range map[string]struct{ contentType, scheme string }{
		ndjsonName:            {"application/x-ndjson", "Bearer"},
		jsonArrayName:         {"application/json", "Bearer"},
		cloudEventsName:       {"application/cloudevents-batch+json; charset=UTF-8", "Bearer"},
		otlpName:              {"application/x-protobuf", "Bearer"},
		splunkHECName:         {"application/json", "Splunk"},
		elasticsearchBulkName: {"application/x-ndjson", "Bearer"},
		lokiName:              {"application/json", "Bearer"},
	} {
		e := every(t)[name]
		if got := e.ContentType(); got != want.contentType {
			t.Errorf("%s: ContentType = %q, want %q", name, got, want.contentType)
		}
		if got := e.TokenScheme(); got != want.scheme {
			t.Errorf("%s: TokenScheme = %q, want %q", name, got, want.scheme)
		}
		if e.MaxAnswer() < 64<<10 {
			t.Errorf("%s: MaxAnswer = %d, want room to quote an answer", name, e.MaxAnswer())
		}
		if quotes := strings.HasPrefix(name, otlpName) || name == elasticsearchBulkName; quotes && e.MaxAnswer() < 1<<20 {
			t.Errorf("%s: MaxAnswer = %d, want room for answers that quote records", name, e.MaxAnswer())
		}
		decides := name != ndjsonName && name != jsonArrayName && name != cloudEventsName && name != lokiName
		if e.AnswerDecides() != decides {
			t.Errorf("%s: AnswerDecides = %t, want %t", name, e.AnswerDecides(), decides)
		}
		if (e.Query() != "") != (name == elasticsearchBulkName) {
			t.Errorf("%s: Query = %q, want one for bulk requests alone", name, e.Query())
		}
	}
}

func TestValidate(t *testing.T) {
	for name, test := range map[string]struct {
		encoding string
		config   Config
		want     []string
	}{
		"no encoding":      {"", Config{}, []string{"encoding: must be ndjson, jsonArray, cloudEvents, otlp, splunkHEC, elasticsearchBulk or loki"}},
		"unknown":          {"xml", Config{}, []string{`encoding: must be ndjson, jsonArray, cloudEvents, otlp, splunkHEC, elasticsearchBulk or loki, not "xml"`}},
		"another's":        {ndjsonName, Config{Loki: &Loki{}}, []string{"loki: has no effect without encoding: loki: set it, or remove this section"}},
		"empty sections":   {lokiName, Config{Loki: &Loki{}}, nil},
		"everything wrong": {"loki", Config{OTLP: &OTLP{TimeFields: []string{"a..b"}}, Loki: &Loki{Labels: map[string]string{"source": "a"}}}, []string{"otlp: has no effect without encoding: otlp: set it, or remove this section", "loki.labels: must not have source: docket sets it"}},

		"CloudEvents":        {cloudEventsName, Config{CloudEvents: &CloudEvents{Type: "com.example", Source: "https://example.com/a?b#c"}}, nil},
		"CloudEvents' texts": {cloudEventsName, Config{CloudEvents: &CloudEvents{Type: "a\nb", Source: "a b"}}, []string{"cloudEvents.type: must not hold control characters", "cloudEvents.source: must be a URI reference, such as https://example.com/cluster-a or cluster-a/docket"}},

		"OTLP":            {otlpName, Config{OTLP: &OTLP{Resource: map[string]string{"k8s.cluster.name": "a"}, TimeFields: []string{"a.b"}, SeverityFields: []string{"c"}}}, nil},
		"OTLP's fields":   {otlpName, Config{OTLP: &OTLP{TimeFields: []string{"a", "a..b"}, SeverityFields: []string{"a.*", "#", "@this"}}}, []string{"otlp.timeFields[1]: must be field names joined by dots, such as object.kind", "otlp.severityFields[0]: must be field names joined by dots, such as object.kind", "otlp.severityFields[1]: must be field names joined by dots, such as object.kind", "otlp.severityFields[2]: must be field names joined by dots, such as object.kind"}},
		"OTLP's resource": {otlpName, Config{OTLP: &OTLP{Resource: map[string]string{"": "a", "b": "\x00"}}}, []string{`otlp.resource: names and values must not be empty or hold control characters: ""`, `otlp.resource: names and values must not be empty or hold control characters: "b"`}},

		"Splunk":         {splunkHECName, Config{SplunkHEC: &SplunkHEC{Index: "main", Host: "h", Source: "s", SourceType: "t", TimeFields: []string{"ts"}}}, nil},
		"Splunk's texts": {splunkHECName, Config{SplunkHEC: &SplunkHEC{Index: "\n", Host: "\n", Source: "\n", SourceType: "\n", TimeFields: []string{""}}}, []string{"splunkHEC.index: must not hold control characters", "splunkHEC.host: must not hold control characters", "splunkHEC.source: must not hold control characters", "splunkHEC.sourcetype: must not hold control characters", "splunkHEC.timeFields[0]: must be field names joined by dots, such as object.kind"}},

		"bulk":           {elasticsearchBulkName, Config{ElasticsearchBulk: &ElasticsearchBulk{Index: "decisions-{yyyy.MM.dd}", Op: BulkIndex}}, nil},
		"bulk's choices": {elasticsearchBulkName, Config{ElasticsearchBulk: &ElasticsearchBulk{Index: "Decisions", Op: "update"}}, []string{"elasticsearchBulk.index: must be in lower case", `elasticsearchBulk.op: must be create or index, not "update"`}},

		"Loki":          {lokiName, Config{Loki: &Loki{Labels: map[string]string{"queue": "a", "_b": "\u00e9"}}}, nil},
		"Loki's labels": {lokiName, Config{Loki: &Loki{QueueLabel: true, Labels: map[string]string{"queue": "a", "a-b": "c", "1a": "c", "__a": "c", "d": "", "e": "\n"}}}, []string{`loki.labels: must have names of letters, digits and underscores, without a digit or two underscores at the start, not "1a"`, `loki.labels: must have names of letters, digits and underscores, without a digit or two underscores at the start, not "__a"`, `loki.labels: must have names of letters, digits and underscores, without a digit or two underscores at the start, not "a-b"`, "loki.labels.d: must be a text without control characters", "loki.labels.e: must be a text without control characters", "loki.labels: must not have queue: docket sets it"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, p := range validate(test.encoding, test.config) {
				got = append(got, p.String())
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got the problems\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
	if e, err := New("xml", Config{}); err == nil {
		t.Errorf("New(xml) = %v, nil, want an error", e)
	}
}

// What the sections are called in YAML is what the user sees.
func TestConfigKeys(t *testing.T) {
	const text = `
cloudEvents: {type: a, source: b}
otlp: {resource: {a: b}, timeFields: [a], severityFields: [b]}
splunkHEC: {index: a, host: b, source: c, sourcetype: d, timeFields: [e]}
elasticsearchBulk: {index: a, op: index}
loki: {labels: {a: b}, queueLabel: true}
`
	doc, problems := config.Parse([]byte(text))
	var got Config
	if problems = append(problems, doc.Decode(&got)...); problems != nil {
		t.Fatalf("got the problems %v, want none", problems)
	}
	again, err := config.Encode(got)
	if err != nil {
		t.Fatal(err)
	}
	doc, _ = config.Parse(again)
	var same Config
	if p := doc.Decode(&same); p != nil || same.OTLP.Resource["a"] != "b" || same.ElasticsearchBulk.Op != BulkIndex || !same.Loki.QueueLabel || same.SplunkHEC.SourceType != "d" {
		t.Errorf("got %+v (%v) after a round trip, want %+v", same, p, got)
	}
}

// BenchmarkAppend writes batches of 500 records of some 1 KB, as Gatekeeper
// makes them.
func BenchmarkAppend(b *testing.B) {
	record := `{"id":"b55fd242-f19c-4289-8690-4f9eff3c54ca","details":{"missing_labels":["owner"]},"eventType":"violation_admission",` +
		`"group":"constraints.gatekeeper.sh","version":"v1beta1","kind":"K8sRequiredLabels","name":"pods-must-have-owner",` +
		`"message":"you must provide labels: {\"owner\"}","enforcementAction":"deny","timestamp":"2026-11-21T08:07:16.213267926Z",` +
		`"resourceLabels":{"note":"` + strings.Repeat("x", 600) + `"}}`
	batch := many(500)
	for i := range batch.Items {
		batch.Items[i].Record, batch.Items[i].Producer = []byte(record), "pod-a/1"
	}
	for name, e := range every(b) {
		b.Run(strings.ReplaceAll(name, " ", "-"), func(b *testing.B) {
			var dst []byte
			b.SetBytes(int64(batch.Size()))
			b.ReportAllocs()
			for b.Loop() {
				dst, _ = e.Append(dst[:0], batch)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(batch.Items)), "ns/record")
		})
	}
}

func TestQuote(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"text":          {"field a: not a number", "field a: not a number"},
		"lines":         {"a\r\n\t  b ", "a b"},
		"control":       {"a\x00\x1b[31mb\u202ec\ufffdd", "a [31mb c d"},
		"not UTF-8":     {"a\xff\xfeb", "a b"},
		"as long as":    {strings.Repeat("y", 512), strings.Repeat("y", 512)},
		"cut":           {strings.Repeat("y", 513), strings.Repeat("y", 509) + "..."},
		"cut in a rune": {strings.Repeat("y", 508) + strings.Repeat("\u00e9", 9), strings.Repeat("y", 508) + "..."},
		"mostly space":  {strings.Repeat(" ", 4000) + "y", "..."},
	} {
		if got := sinks.AnswerText(test.text); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

func validate(encoding string, c Config) config.Problems {
	c.Encoding = encoding
	return c.Validate()
}
