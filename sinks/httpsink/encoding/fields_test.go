package encoding

import (
	"strings"
	"testing"
	"time"

	collogs "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	logs "go.opentelemetry.io/proto/slim/otlp/logs/v1"
	"google.golang.org/protobuf/proto"

	"github.com/docket-export/docket/sinks"
)

// The records of every engine have a time and a severity by their normalized form.
func TestNormalizedFields(t *testing.T) {
	const (
		log     = `{"ts":1767607447.5,"msg":"denied admission: no team","process":"admission","event_type":"violation","constraint_action":"scoped","constraint_enforcement_actions":["warn"]}`
		opa     = `{"decision_id":"1","path":"authz/allow","result":false,"timestamp":"2026-01-05T10:04:08Z"}`
		unknown = `{"normalized":{"decision":"deny","when":"2026-01-05T10:04:08Z"},"decision":"allow","at":"2026-01-05T10:04:09Z"}`
	)
	otlp := mustNew(t, otlpName, Config{OTLP: &OTLP{TimeFields: []string{"normalized.when", "at"}, SeverityFields: []string{"normalized.decision", "decision"}}})
	for record, want := range map[string]*logs.LogRecord{
		log:     {TimeUnixNano: nanos("2026-01-05T10:04:07.5Z"), SeverityNumber: logs.SeverityNumber_SEVERITY_NUMBER_WARN, SeverityText: "warn"},
		opa:     {TimeUnixNano: nanos("2026-01-05T10:04:08Z"), SeverityNumber: logs.SeverityNumber_SEVERITY_NUMBER_ERROR, SeverityText: "deny"},
		unknown: {TimeUnixNano: nanos("2026-01-05T10:04:09Z"), SeverityNumber: logs.SeverityNumber_SEVERITY_NUMBER_INFO, SeverityText: "allow"},
		`{}`:    {},
	} {
		var sent collogs.ExportLogsServiceRequest
		if err := proto.Unmarshal([]byte(body(t, otlp, batch(record))), &sent); err != nil {
			t.Fatal(err)
		}
		got := sent.ResourceLogs[0].ScopeLogs[0].LogRecords[0]
		got.ObservedTimeUnixNano, got.Body, got.Attributes = 0, nil, nil
		if !proto.Equal(got, want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", record, got, want)
		}
	}

	splunk := mustNew(t, splunkHECName, Config{SplunkHEC: &SplunkHEC{TimeFields: []string{"normalized.when"}}})
	body, err := splunk.Append(nil, sinks.Batch{Items: []sinks.Item{{Seq: 1, Record: []byte(log)}}})
	if err != nil || !strings.HasPrefix(string(body), `{"time":1767607447.500,`) {
		t.Errorf("got %s, %v, want the time of the log line", body, err)
	}
}

func nanos(text string) uint64 {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		panic(err)
	}
	return uint64(t.UnixNano())
}
