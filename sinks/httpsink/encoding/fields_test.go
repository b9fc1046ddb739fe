package encoding

import (
	"strings"
	"testing"
	"time"

	logs "go.opentelemetry.io/proto/slim/otlp/logs/v1"
	"google.golang.org/protobuf/proto"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/sinks"
)

// The records of every engine have a time and a severity by their normalized form.
func TestNormalizedFields(t *testing.T) {
	const (
		log     = `{"ts":1767607447.5,"msg":"denied admission: no team","process":"admission","event_type":"violation","constraint_action":"scoped","constraint_enforcement_actions":["warn"]}`
		opa     = `{"decision_id":"1","path":"authz/allow","result":false,"timestamp":"2026-01-05T10:04:08Z"}`
		unknown = `{"normalized":{"decision":"deny","when":"2026-01-05T10:04:08Z"},"decision":"allow","at":"2026-01-05T10:04:09Z"}`
	)
	e := newOTLP(OTLP{TimeFields: []string{"normalized.when", "at"}, SeverityFields: []string{"normalized.decision", "decision"}})
	for record, want := range map[string]*logs.LogRecord{
		log:     {TimeUnixNano: nanos("2026-01-05T10:04:07.5Z"), SeverityNumber: logs.SeverityNumber_SEVERITY_NUMBER_WARN, SeverityText: "warn"},
		opa:     {TimeUnixNano: nanos("2026-01-05T10:04:08Z"), SeverityNumber: logs.SeverityNumber_SEVERITY_NUMBER_ERROR, SeverityText: "deny"},
		unknown: {TimeUnixNano: nanos("2026-01-05T10:04:09Z"), SeverityNumber: logs.SeverityNumber_SEVERITY_NUMBER_INFO, SeverityText: "allow"},
		`{}`:    {},
	} {
		want.ObservedTimeUnixNano = nanos("2026-01-05T10:05:00Z")
		got := e.logRecord(&sinks.Batch{Items: []sinks.Item{{Record: []byte(record), Received: time.Unix(0, int64(want.ObservedTimeUnixNano))}}}, 0)
		if got.Body, got.Attributes = nil, nil; !proto.Equal(got, want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", record, got, want)
		}
	}

	splunk := newSplunkHEC(SplunkHEC{TimeFields: []string{"normalized.when"}})
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

func TestCheckNormalizedField(t *testing.T) {
	for _, field := range decision.NormalizedFields() {
		if err := fieldPath(decision.NormalizedPrefix + field); err != nil {
			t.Errorf("%s: got %v, want nil", field, err)
		}
	}
	for _, path := range []string{"normalized.", "normalized.resource", "normalized.nam"} {
		if err := fieldPath(path); err == nil || err.Error() != "must be a field of the normalized form, such as normalized.decision" {
			t.Errorf("%s: got %v, want an error that names one", path, err)
		}
	}
}
