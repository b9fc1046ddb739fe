package encoding

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	collogs "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	logs "go.opentelemetry.io/proto/slim/otlp/logs/v1"
	resource "go.opentelemetry.io/proto/slim/otlp/resource/v1"

	"github.com/docket-export/docket/sinks"
)

func text(key, value string) *common.KeyValue {
	return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: value}}}
}

func number(key string, value int64) *common.KeyValue {
	return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: value}}}
}

// request is what b should be as the published messages.
func request(b sinks.Batch, attributes []*common.KeyValue, describe func(i int, l *logs.LogRecord)) *collogs.ExportLogsServiceRequest {
	scope := &logs.ScopeLogs{Scope: &common.InstrumentationScope{Name: "docket"}}
	for i, it := range b.Items {
		l := &logs.LogRecord{
			ObservedTimeUnixNano: uint64(it.Received.UnixNano()),
			Body:                 &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: string(it.Record)}},
			Attributes: []*common.KeyValue{
				text("log.record.uid", b.ID(i)), text("docket.id", b.ID(i)), number("docket.seq", int64(it.Seq)), text("docket.source", it.Source),
			},
		}
		if it.Producer != "" {
			l.Attributes = append(l.Attributes, text("docket.producer", it.Producer))
		}
		if it.Late != sinks.OnTime {
			l.Attributes = append(l.Attributes, text("docket.late", string(it.Late)))
		}
		describe(i, l)
		scope.LogRecords = append(scope.LogRecords, l)
	}
	return &collogs.ExportLogsServiceRequest{ResourceLogs: []*logs.ResourceLogs{{
		Resource: &resource.Resource{Attributes: attributes}, ScopeLogs: []*logs.ScopeLogs{scope},
	}}}
}

// wantRequest compares what is written with want.
func wantRequest(t *testing.T, c OTLP, b sinks.Batch, want *collogs.ExportLogsServiceRequest) {
	t.Helper()
	var got collogs.ExportLogsServiceRequest
	if err := proto.Unmarshal([]byte(body(t, mustNew(t, otlpName, Config{OTLP: &c}), b)), &got); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(&got, want) {
		t.Errorf("got\n%s\nwant\n%s", protojson.Format(&got), protojson.Format(want))
	}
}

func TestOTLP(t *testing.T) {
	b := batch(
		`{"timestamp":"2026-01-05T09:00:00.000000001Z","decision":"allow","enforcementAction":"deny"}`,
		`{"requestReceivedTimestamp":"2026-01-05T10:00:00+01:00","enforcementAction":"deny","timestamp":"yesterday"}`,
		`{"enforcementAction":"warn","timestamp":1767600000}`,
		`{"enforcementAction":"dryrun","timestamp":"1969-12-31T23:59:59Z"}`,
		`{"enforcementAction":"scoped","timestamp":"2300-01-01T00:00:00Z"}`,
		`{"decision":"","enforcementAction":null}`,
		`{"decision":"a\ud800b"}`,
	)
	b.Items[1].Producer, b.Items[1].Late = "pod-a/1", "Replayed"
	b.Items[2].Seq = 1 << 62
	at := uint64(time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC).UnixNano())
	wantRequest(t, OTLP{}, b, request(b, []*common.KeyValue{text("service.name", "docket")}, func(i int, l *logs.LogRecord) {
		l.TimeUnixNano = []uint64{at + 1, at, 0, 0, 0, 0, 0}[i]
		l.SeverityText = []string{"allow", "deny", "warn", "dryrun", "scoped", "", "a\ufffdb"}[i]
		l.SeverityNumber = []logs.SeverityNumber{9, 17, 13, 9, 0, 0, 0}[i]
	}))
}

func TestOTLPOptions(t *testing.T) {
	b := batch(`{"a":{"at":"2026-01-05T09:00:00Z"},"timestamp":"2020-01-05T09:00:00Z","result":"deny","decision":"allow"}`)
	c := OTLP{
		Resource:       map[string]string{"service.name": "policy", "k8s.cluster.name": "a", "empty": ""},
		TimeFields:     []string{"a.at"},
		SeverityFields: []string{"result"},
	}
	attributes := []*common.KeyValue{text("empty", ""), text("k8s.cluster.name", "a"), text("service.name", "policy")}
	wantRequest(t, c, b, request(b, attributes, func(_ int, l *logs.LogRecord) {
		l.TimeUnixNano = uint64(time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC).UnixNano())
		l.SeverityText, l.SeverityNumber = "deny", logs.SeverityNumber_SEVERITY_NUMBER_ERROR
	}))
}

func TestOTLPPartialSuccess(t *testing.T) {
	e := mustNew(t, otlpName, Config{})
	for name, test := range map[string]struct {
		partial *collogs.ExportLogsPartialSuccess
		items   []int // of a failure
		fails   bool
	}{
		"none":           {nil, nil, false},
		"empty":          {&collogs.ExportLogsPartialSuccess{}, nil, false},
		"warning":        {&collogs.ExportLogsPartialSuccess{ErrorMessage: "soon to be removed"}, nil, false},
		"some":           {&collogs.ExportLogsPartialSuccess{RejectedLogRecords: 2, ErrorMessage: "too\nold"}, nil, true},
		"all":            {&collogs.ExportLogsPartialSuccess{RejectedLogRecords: 3, ErrorMessage: "too\nold"}, []int{0, 1, 2}, true},
		"more than sent": {&collogs.ExportLogsPartialSuccess{RejectedLogRecords: 9, ErrorMessage: "too\nold"}, []int{0, 1, 2}, true},
		"negative":       {&collogs.ExportLogsPartialSuccess{RejectedLogRecords: -1}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			answer, err := proto.Marshal(&collogs.ExportLogsServiceResponse{PartialSuccess: test.partial})
			if err != nil {
				t.Fatal(err)
			}
			err = e.Judge(200, answer, many(3), sinks.AnswerText)
			if !test.fails {
				if err != nil {
					t.Errorf("Judge = %v, want nil", err)
				}
				return
			}
			f := failureOf(t, err, sinks.Rejected, "of 3 log records rejected: too old")
			if !slices.Equal(f.Items, test.items) {
				t.Errorf("got the items %v, want %v", f.Items, test.items)
			}
			if want := (sinks.Answer{Status: "200", Text: "too old"}); f.Answer(0) != want {
				t.Errorf("got the answer %v, want %v", f.Answer(0), want)
			}
		})
	}
}

func TestOTLPAnswersOfOthers(t *testing.T) {
	e := mustNew(t, otlpName, Config{})
	if err := e.Judge(200, nil, many(1), sinks.AnswerText); err != nil {
		t.Errorf("Judge of an empty answer = %v, want nil", err)
	}
	for _, answer := range []string{"{}", `{"partialSuccess":{"rejectedLogRecords":0}}`, "<html>", "OK\n", "{"} {
		failureOf(t, e.Judge(200, []byte(answer), many(1), sinks.AnswerText), sinks.Misconfigured, "/v1/logs")
	}
}

// A severity is a word. What else a record has in its place stands in the body.
func TestOTLPSeverityIsShort(t *testing.T) {
	for value, want := range map[string]string{
		strings.Repeat("x", 32):                  strings.Repeat("x", 32),
		strings.Repeat("x", 1<<20):               strings.Repeat("x", 32),
		strings.Repeat("x", 31) + "\u00e9":       strings.Repeat("x", 31),
		strings.Repeat("x", 30) + "\u00e9 there": strings.Repeat("x", 30) + "\u00e9",
	} {
		b := batch(`{"decision":"` + value + `"}`)
		wantRequest(t, OTLP{}, b, request(b, []*common.KeyValue{text("service.name", "docket")}, func(_ int, l *logs.LogRecord) {
			l.SeverityText = want
		}))
	}
}
