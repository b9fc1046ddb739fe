package encoding

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	collogs "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	logs "go.opentelemetry.io/proto/slim/otlp/logs/v1"
	resource "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	"google.golang.org/protobuf/proto"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sinks"
)

// OTLP has the options of the encoding otlp.
type OTLP struct {
	// Resource holds the attributes of the resource. service.name is docket unless
	// it is among them.
	Resource map[string]string `yaml:"resource"`
	// TimeFields are fields of the record, as names joined by dots, or of its normalized
	// form ("normalized.when"). The first that
	// holds a time in the form of RFC 3339 is the time of the log record; without
	// one it has only the time at which docket received it. Default: timestamp,
	// requestReceivedTimestamp.
	TimeFields []string `yaml:"timeFields"`
	// SeverityFields are fields of the record, as names joined by dots, or of its
	// normalized form ("normalized.decision"). The first that holds a string gives the
	// text of the severity, cut to 32 bytes. The number of the severity is INFO for
	// allow and dryrun, WARN for warn, ERROR for deny and error, and none for others.
	// Default: decision, enforcementAction.
	SeverityFields []string `yaml:"severityFields"`
}

func (c *OTLP) validate() config.Problems {
	p := config.Each("timeFields", c.TimeFields, sinks.CheckField)
	p = append(p, config.Each("severityFields", c.SeverityFields, sinks.CheckField)...)
	for _, name := range slices.Sorted(maps.Keys(c.Resource)) {
		if name == "" || plainText(name) != nil || plainText(c.Resource[name]) != nil {
			p.Addf("resource", "names and values must not be empty or hold control characters: %q", name)
		}
	}
	return p
}

// FormerKeys implements config.Reduced.
func (OTLP) FormerKeys() map[string]string {
	return map[string]string{"format": "docket writes OTLP as protobuf alone, which every receiver of OTLP over HTTP takes: remove it"}
}

// otlp is the OpenTelemetry protocol over HTTP, version 1, in protobuf, for logs (/v1/logs).
// Each record is one LogRecord of one scope "docket":
//
//	body                    the record as a string, byte for byte: a list of keys and values would
//	                        lose number text, and not every reader keeps keys that stand twice
//	time                    from the record (OTLP.TimeFields), or none
//	observed time           when docket received it
//	severity                from the record (OTLP.SeverityFields)
//	attributes              log.record.uid and docket.id (the record's id), docket.seq, docket.source;
//	                        docket.producer and docket.late where there are any
//
// A server that takes only some of a request says how many it refused, not which
// (partial success), and asks not to be sent that request again. docket lets the
// refused records be found by sending smaller batches all the same: it would
// otherwise have to give them up, or to set the good ones aside with them. So the
// records beside a refused one arrive more than once, some three times on average when it is one,
// under one log.record.uid. Only a request that was refused as a whole is not
// sent again.
//
// https://github.com/open-telemetry/opentelemetry-proto/blob/v1.9.0/docs/specification.md#otlphttp
// https://github.com/open-telemetry/opentelemetry-proto/blob/v1.9.0/opentelemetry/proto/logs/v1/logs.proto
type otlp struct {
	resource       *resource.Resource
	timeFields     []string
	severityFields []string
}

// severityOf ranks decisions for a reader of logs: those that changed nothing, warnings,
// refusals and failures.
func severityOf(text string) logs.SeverityNumber {
	switch text {
	case "allow", "dryrun":
		return logs.SeverityNumber_SEVERITY_NUMBER_INFO
	case "warn":
		return logs.SeverityNumber_SEVERITY_NUMBER_WARN
	case "deny", "error":
		return logs.SeverityNumber_SEVERITY_NUMBER_ERROR
	}
	return logs.SeverityNumber_SEVERITY_NUMBER_UNSPECIFIED
}

// maxOTLPAnswer is room for a message that quotes a record that it refuses.
const maxOTLPAnswer = 1 << 20

// maxSeverityText is more than any decision of a policy engine has. What a record
// says at length stands in the body.
const maxSeverityText = 32

const otlpType = "application/x-protobuf"

func newOTLP(to *Encoding, c OTLP) {
	attributes := map[string]string{"service.name": "docket"}
	maps.Copy(attributes, c.Resource)
	e := &otlp{resource: &resource.Resource{}, timeFields: c.TimeFields, severityFields: c.SeverityFields}
	to.ContentType, to.Acceptance = otlpType, Acceptance{Statuses: acceptsOK.Statuses, Type: otlpType}
	to.MaxAnswer, to.AnswerDecides = maxOTLPAnswer, true
	to.Append, to.Judge = e.append, judgeOTLP
	if len(e.timeFields) == 0 {
		e.timeFields = defaultTimeFields
	}
	if len(e.severityFields) == 0 {
		e.severityFields = []string{"decision", "enforcementAction"}
	}
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		e.resource.Attributes = append(e.resource.Attributes, textAttribute(name, attributes[name]))
	}
}

func (e *otlp) append(dst []byte, b sinks.Batch) ([]byte, error) {
	if len(b.Items) == 0 {
		return dst, nil
	}
	scope := &logs.ScopeLogs{Scope: &common.InstrumentationScope{Name: "docket"}, LogRecords: make([]*logs.LogRecord, len(b.Items))}
	for i := range b.Items {
		scope.LogRecords[i] = e.logRecord(&b, i)
	}
	return proto.MarshalOptions{}.MarshalAppend(dst, &collogs.ExportLogsServiceRequest{
		ResourceLogs: []*logs.ResourceLogs{{Resource: e.resource, ScopeLogs: []*logs.ScopeLogs{scope}}},
	})
}

func (e *otlp) logRecord(b *sinks.Batch, i int) *logs.LogRecord {
	it, id := &b.Items[i], b.ID(i)
	text := textOf(it.Record, e.severityFields)
	l := &logs.LogRecord{
		ObservedTimeUnixNano: uint64(it.Received.UnixNano()),
		SeverityNumber:       severityOf(text),
		SeverityText:         text,
		Body:                 textValue(string(it.Record)),
		Attributes: []*common.KeyValue{
			textAttribute("log.record.uid", id),
			textAttribute("docket.id", id),
			{Key: "docket.seq", Value: &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: int64(it.Seq)}}},
			textAttribute("docket.source", it.Source),
		},
	}
	if len(text) > maxSeverityText {
		l.SeverityText = strings.ToValidUTF8(text[:maxSeverityText], "")
	}
	if made, ok := timeOf(it.Record, e.timeFields); ok {
		l.TimeUnixNano = uint64(made.UnixNano())
	}
	if it.Producer != "" {
		l.Attributes = append(l.Attributes, textAttribute("docket.producer", it.Producer))
	}
	if it.Late != sinks.OnTime {
		l.Attributes = append(l.Attributes, textAttribute("docket.late", string(it.Late)))
	}
	return l
}

func textAttribute(name, text string) *common.KeyValue {
	return &common.KeyValue{Key: name, Value: textValue(text)}
}

func textValue(text string) *common.AnyValue {
	return &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: text}}
}

func judgeOTLP(status int, body []byte, b sinks.Batch, quote Quote) error {
	var response collogs.ExportLogsServiceResponse
	if err := proto.Unmarshal(body, &response); err != nil {
		return sinks.Failf(sinks.Misconfigured, "the answer is not from an OTLP receiver: %w: http.url must end in /v1/logs", err)
	}
	answer := response.GetPartialSuccess()
	if answer.GetRejectedLogRecords() <= 0 {
		return nil // a message without a number is a warning
	}
	message := quote(answer.GetErrorMessage())
	f := &sinks.Failure{
		Kind: sinks.Rejected,
		Said: sinks.Answer{Status: strconv.Itoa(status), Text: message},
		Err:  fmt.Errorf("%d of %d log records rejected: %s", answer.GetRejectedLogRecords(), len(b.Items), message),
	}
	if answer.GetRejectedLogRecords() >= int64(len(b.Items)) {
		for i := range b.Items {
			f.Items = append(f.Items, i)
		}
	}
	return f
}
