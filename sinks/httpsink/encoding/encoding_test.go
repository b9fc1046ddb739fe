package encoding

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

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

// every returns each encoding with its defaults.
func every(t testing.TB) map[string]Encoding {
	all := map[string]Encoding{}
	for _, name := range Names {
		all[name] = mustNew(t, name, Config{})
	}
	return all
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
			if err := e.Judge(200, []byte(text), batch(`{}`), sinks.AnswerText); err != nil {
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
	for name, want := range map[string]struct {
		contentType, scheme string
		decides             bool
	}{
		ndjsonName:            {"application/x-ndjson", "Bearer", false},
		jsonArrayName:         {"application/json", "Bearer", false},
		cloudEventsName:       {"application/cloudevents-batch+json; charset=UTF-8", "Bearer", false},
		otlpName:              {"application/x-protobuf", "Bearer", true},
		splunkHECName:         {"application/json", "Splunk", true},
		elasticsearchBulkName: {"application/x-ndjson", "Bearer", true},
		lokiName:              {"application/json", "Bearer", false},
	} {
		e := every(t)[name]
		if e.ContentType != want.contentType || e.TokenScheme != want.scheme || e.AnswerDecides != want.decides {
			t.Errorf("%s: got %q, %q, %t, want %+v", name, e.ContentType, e.TokenScheme, e.AnswerDecides, want)
		}
	}
}

func TestValidate(t *testing.T) {
	const names = "must be field names joined by dots, such as object.kind, not "
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
		"OTLP's fields":   {otlpName, Config{OTLP: &OTLP{TimeFields: []string{"a", "a..b"}, SeverityFields: []string{"a.*"}}}, []string{"otlp.timeFields[1]: " + names + `"a..b"`, "otlp.severityFields[0]: " + names + `"a.*"`}},
		"OTLP's resource": {otlpName, Config{OTLP: &OTLP{Resource: map[string]string{"": "a", "b": "\x00"}}}, []string{`otlp.resource: names and values must not be empty or hold control characters: ""`, `otlp.resource: names and values must not be empty or hold control characters: "b"`}},

		"Splunk":         {splunkHECName, Config{SplunkHEC: &SplunkHEC{Index: "main", Host: "h", Source: "s", SourceType: "t", TimeFields: []string{"ts"}}}, nil},
		"Splunk's texts": {splunkHECName, Config{SplunkHEC: &SplunkHEC{Index: "\n", Host: "\n", Source: "\n", SourceType: "\n", TimeFields: []string{""}}}, []string{"splunkHEC.index: must not hold control characters", "splunkHEC.host: must not hold control characters", "splunkHEC.source: must not hold control characters", "splunkHEC.sourcetype: must not hold control characters", "splunkHEC.timeFields[0]: " + names + `""`}},

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
