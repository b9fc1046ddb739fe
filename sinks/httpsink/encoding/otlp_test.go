package encoding

import (
	"encoding/json"
	"errors"
	"fmt"
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

// wantRequest compares both formats with want, by the published messages.
func wantRequest(t *testing.T, c OTLP, b sinks.Batch, want *collogs.ExportLogsServiceRequest) {
	t.Helper()
	for format, read := range map[OTLPFormat]func([]byte, proto.Message) error{OTLPProtobuf: proto.Unmarshal, OTLPJSON: protojson.Unmarshal} {
		c.Format = format
		var got collogs.ExportLogsServiceRequest
		if err := read([]byte(body(t, mustNew(t, otlpName, Config{OTLP: &c}), b)), &got); err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		if !proto.Equal(&got, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", format, protojson.Format(&got), protojson.Format(want))
		}
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

// As many bytes as the library would write: no length is longer than it must be.
func TestOTLPProtobufIsCompact(t *testing.T) {
	for _, n := range []int{1, 2, 30, 500} {
		b := many(n)
		b.Items[0].Record = fmt.Appendf(nil, `{"a":"%0*d"}`, n*40, 0) // lengths of one to three bytes
		got := body(t, mustNew(t, otlpName, Config{}), b)
		want := proto.Size(request(b, []*common.KeyValue{text("service.name", "docket")}, func(int, *logs.LogRecord) {}))
		if len(got) != want {
			t.Errorf("%d records: got %d bytes, want %d", n, len(got), want)
		}
	}
}

func TestOTLPPartialSuccess(t *testing.T) {
	for _, format := range []OTLPFormat{OTLPProtobuf, OTLPJSON} {
		e := mustNew(t, otlpName, Config{OTLP: &OTLP{Format: format}})
		write := map[OTLPFormat]func(proto.Message) ([]byte, error){OTLPProtobuf: proto.Marshal, OTLPJSON: protojson.Marshal}[format]
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
			t.Run(string(format)+"/"+name, func(t *testing.T) {
				answer, err := write(&collogs.ExportLogsServiceResponse{PartialSuccess: test.partial})
				if err != nil {
					t.Fatal(err)
				}
				err = e.Judge(200, answer, many(3))
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
}

func TestOTLPAnswersOfOthers(t *testing.T) {
	for format, answers := range map[OTLPFormat]map[string]bool{ // true: accepted
		OTLPProtobuf: {"": true, "{}": false, `{"partialSuccess":{"rejectedLogRecords":0}}`: false, "<html>": false, "OK\n": false, "{": false},
		OTLPJSON:     {"": false, "{}": true, " { }\n": true, `{"status":"ok"}`: false, `{"partialSuccess":null}`: true, `{"partialSuccess":{"rejectedLogRecords":null}}`: true, "<html>": false, `"OK"`: false, `{"partialSuccess":{"rejectedLogRecords":"many"}}`: false, `{"partialSuccess":1}`: false},
	} {
		e := mustNew(t, otlpName, Config{OTLP: &OTLP{Format: format}})
		for answer, accepted := range answers {
			t.Run(fmt.Sprintf("%s/%q", format, answer), func(t *testing.T) {
				err := e.Judge(200, []byte(answer), many(1))
				if accepted && err != nil {
					t.Errorf("Judge = %v, want nil", err)
				}
				if !accepted {
					failureOf(t, err, sinks.Misconfigured, "/v1/logs")
				}
			})
		}
	}
}

// A message may quote the record, which may be longer than what is read of an
// answer. The number beside it still counts.
func TestOTLPAnswerCutOff(t *testing.T) {
	const room = 1000
	long := strings.Repeat("x", room)
	protobuf := func(p *collogs.ExportLogsPartialSuccess) string {
		answer, err := proto.Marshal(&collogs.ExportLogsServiceResponse{PartialSuccess: p})
		if err != nil {
			t.Fatal(err)
		}
		return string(answer)
	}
	for name, test := range map[string]struct {
		format OTLPFormat
		answer string
		read   int // bytes of the answer
		kind   sinks.Kind
		words  string
		items  []int
	}{
		"protobuf, some":                {OTLPProtobuf, protobuf(&collogs.ExportLogsPartialSuccess{RejectedLogRecords: 1, ErrorMessage: long}), room, sinks.Rejected, "1 of 2 log records rejected: xxx", nil},
		"protobuf, all":                 {OTLPProtobuf, protobuf(&collogs.ExportLogsPartialSuccess{RejectedLogRecords: 2, ErrorMessage: long}), room, sinks.Rejected, "2 of 2 log records rejected: xxx", []int{0, 1}},
		"protobuf, number not known":    {OTLPProtobuf, protobuf(&collogs.ExportLogsPartialSuccess{ErrorMessage: long}), room, sinks.Rejected, "longer than", nil},
		"protobuf, broken off":          {OTLPProtobuf, protobuf(&collogs.ExportLogsPartialSuccess{RejectedLogRecords: 1, ErrorMessage: "too old"}), 8, sinks.Rejected, "1 of 2 log records rejected: to", nil},
		"protobuf, broken off too soon": {OTLPProtobuf, protobuf(&collogs.ExportLogsPartialSuccess{ErrorMessage: "too old"}), 8, sinks.Misconfigured, "incomplete", nil},
		"JSON, some":                    {OTLPJSON, `{"partialSuccess":{"rejectedLogRecords":"1","errorMessage":"` + long, room, sinks.Rejected, "1 of 2 log records rejected: xxx", nil},
		"JSON, all":                     {OTLPJSON, `{"partialSuccess":{"rejectedLogRecords":2,"errorMessage":"` + long, room, sinks.Rejected, "2 of 2 log records rejected: xxx", []int{0, 1}},
		"JSON, number last":             {OTLPJSON, `{"partialSuccess":{"errorMessage":"` + long, room, sinks.Rejected, "longer than", nil},
		"JSON, broken off":              {OTLPJSON, `{"partialSuccess":{"rejectedLogRecords":"1","errorMessage":"to`, 62, sinks.Rejected, "1 of 2 log records rejected: to", nil},
		"JSON to protobuf":              {OTLPProtobuf, `{"partialSuccess":{"rejectedLogRecords":"1","errorMessage":"` + long, room, sinks.Misconfigured, "/v1/logs", nil},
		"a long page":                   {OTLPProtobuf, "<html>" + long, room, sinks.Misconfigured, "/v1/logs", nil},
	} {
		t.Run(name, func(t *testing.T) {
			e := newOTLP(OTLP{Format: test.format})
			e.maxAnswer = room
			f := failureOf(t, e.Judge(200, []byte(test.answer[:test.read]), many(2)), test.kind, test.words)
			if !slices.Equal(f.Items, test.items) {
				t.Errorf("got the items %v, want %v", f.Items, test.items)
			}
		})
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

// Both readers agree with the library on what it can read.
func FuzzOTLPAnswer(f *testing.F) {
	for _, p := range []*collogs.ExportLogsPartialSuccess{nil, {}, {RejectedLogRecords: 2, ErrorMessage: "too old"}, {RejectedLogRecords: -2}} {
		answer, err := proto.Marshal(&collogs.ExportLogsServiceResponse{PartialSuccess: p})
		asJSON, err2 := protojson.Marshal(&collogs.ExportLogsServiceResponse{PartialSuccess: p})
		if err := errors.Join(err, err2); err != nil {
			f.Fatal(err)
		}
		f.Add(answer)
		f.Add(asJSON)
	}
	protobuf, asJSON := mustNew(f, otlpName, Config{}), mustNew(f, otlpName, Config{OTLP: &OTLP{Format: OTLPJSON}})
	f.Fuzz(func(t *testing.T, answer []byte) {
		checkJudge(t, protobuf, 200, answer)
		checkJudge(t, asJSON, 200, answer)
		compare := func(format string, want *collogs.ExportLogsServiceResponse, read func([]byte) (partialSuccess, error)) {
			got, err := read(answer)
			p := want.GetPartialSuccess()
			if err != nil || got.rejected != p.GetRejectedLogRecords() || got.message != p.GetErrorMessage() {
				t.Errorf("%s %q: got %+v, %v, want %v", format, answer, got, err, p)
			}
		}
		var want collogs.ExportLogsServiceResponse
		if len(answer) > 0 && answer[0] != '{' && proto.Unmarshal(answer, &want) == nil {
			compare("protobuf", &want, new(otlpProtobuf).readAnswer)
		}
		// The library takes more, such as 1e0 for a number and rejected_log_records.
		var strict struct {
			PartialSuccess *struct {
				RejectedLogRecords *int64  `json:"rejectedLogRecords,string"`
				ErrorMessage       *string `json:"errorMessage"`
			} `json:"partialSuccess"`
		}
		if json.Unmarshal(answer, &strict) == nil && protojson.Unmarshal(answer, &want) == nil && strict.PartialSuccess != nil {
			compare("JSON", &want, readOTLPJSON)
		}
	})
}

// Whatever a record holds, what is written can be read and holds it.
func FuzzOTLPRecord(f *testing.F) {
	for _, record := range exact {
		f.Add(record)
	}
	f.Add(`{"timestamp":"2026-01-05T09:00:00Z","decision":"\udc00\ud800deny"}`)
	f.Fuzz(func(t *testing.T, record string) {
		if !json.Valid([]byte(record)) || !slices.Equal([]byte(record), []byte(string([]rune(record)))) {
			return // the exporter takes JSON in UTF-8 alone
		}
		b := batch(record)
		for _, format := range []string{otlpName, "otlp as JSON"} {
			got, err := decoders[format](body(t, every(t)[format], b))
			if err != nil || !slices.Equal(got, []string{record}) {
				t.Errorf("%s: got %q, %v, want %q", format, got, err, record)
			}
		}
	})
}
