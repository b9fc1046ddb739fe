package encoding

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sinks"
)

// OTLPFormat is how OTLP is written.
type OTLPFormat string

// The formats of OTLP.
const (
	OTLPProtobuf OTLPFormat = "Protobuf"
	OTLPJSON     OTLPFormat = "JSON"
)

// OTLP has the options of the encoding otlp.
type OTLP struct {
	// Format is Protobuf, the default, or JSON.
	Format OTLPFormat `yaml:"format"`
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
	var p config.Problems
	for _, name := range slices.Sorted(maps.Keys(c.Resource)) {
		if name == "" || plainText(name) != nil || plainText(c.Resource[name]) != nil {
			p.Addf("resource", "names and values must not be empty or hold control characters: %q", name)
		}
	}
	return p
}

// Rules implements config.Ruled.
func (OTLP) Rules() []config.Rule {
	return []config.Rule{
		config.OneOf("format", OTLPProtobuf, OTLPJSON).When(config.Set("format")),
		config.Each("timeFields", fieldPath, fieldPattern),
		config.Each("severityFields", fieldPath, fieldPattern),
	}
}

// otlp is the OpenTelemetry protocol over HTTP, version 1, for logs (/v1/logs).
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
	traits
	writer         otlpWriter
	timeFields     []string
	severityFields []string
}

// otlpWriter is one of the two ways to write OTLP.
type otlpWriter interface {
	// appendRequest appends a request of the log records of b, which has some.
	appendRequest(dst []byte, b *sinks.Batch, describe func(*sinks.Item) logRecord) []byte
	// readAnswer reads the body of a 2xx answer. Of one that is cut off it returns
	// what stands in front of the cut, and errCutOff.
	readAnswer(body []byte) (partialSuccess, error)
}

// logRecord is what a LogRecord says beside its body and the names of its item.
type logRecord struct {
	made     uint64 // nanoseconds since 1970; 0: not known
	observed uint64
	severity severity
	text     string // of the severity, in the record's words
}

// severity is a SeverityNumber of OTLP.
type severity uint8

const (
	severityNone  severity = 0
	severityInfo  severity = 9
	severityWarn  severity = 13
	severityError severity = 17
)

// severityOf ranks decisions for a reader of logs: those that changed nothing, warnings,
// refusals and failures.
func severityOf(text string) severity {
	switch text {
	case "allow", "dryrun":
		return severityInfo
	case "warn":
		return severityWarn
	case "deny", "error":
		return severityError
	}
	return severityNone
}

// partialSuccess is what an answer says of a request that was taken.
type partialSuccess struct {
	rejected int64
	message  string
}

const scopeName = "docket"

// maxOTLPAnswer is room for a message that quotes a long record that it refuses.
const maxOTLPAnswer = 1 << 20

// maxSeverityText is more than any decision of a policy engine has. What a record
// says at length stands in the body.
const maxSeverityText = 32

func newOTLP(c OTLP) *otlp {
	resource := map[string]string{"service.name": "docket"}
	maps.Copy(resource, c.Resource)
	e := &otlp{
		traits:         traits{maxAnswer: maxOTLPAnswer, answerDecides: true},
		timeFields:     c.TimeFields,
		severityFields: c.SeverityFields,
	}
	if len(e.timeFields) == 0 {
		e.timeFields = defaultTimeFields
	}
	if len(e.severityFields) == 0 {
		e.severityFields = []string{"decision", "enforcementAction"}
	}
	if c.Format == OTLPJSON {
		e.contentType, e.writer = "application/json", newOTLPJSON(resource)
	} else {
		e.contentType, e.writer = "application/x-protobuf", newOTLPProtobuf(resource)
	}
	e.acceptance = Acceptance{Statuses: acceptsOK.Statuses, Type: e.contentType}
	return e
}

// Append implements Encoding.
func (e *otlp) Append(dst []byte, b sinks.Batch) ([]byte, error) {
	if len(b.Items) == 0 {
		return dst, nil
	}
	return e.writer.appendRequest(dst, &b, e.describe), nil
}

func (e *otlp) describe(it *sinks.Item) logRecord {
	r := logRecord{observed: uint64(it.Received.UnixNano()), text: textOf(it.Record, e.severityFields)}
	r.severity = severityOf(r.text)
	if len(r.text) > maxSeverityText {
		r.text = strings.ToValidUTF8(r.text[:maxSeverityText], "")
	}
	if made, ok := timeOf(it.Record, e.timeFields); ok {
		r.made = uint64(made.UnixNano())
	}
	return r
}

// Judge implements Encoding.
func (e *otlp) Judge(status int, body []byte, b sinks.Batch) error {
	answer, err := e.writer.readAnswer(body)
	switch {
	case answer.rejected > 0: // whatever is missing of the message
	case errors.Is(err, errCutOff) && len(body) >= e.maxAnswer:
		return rejected(fmt.Errorf("the answer is longer than %d bytes: such a long message quotes a rejected record", e.maxAnswer))
	case err != nil:
		return sinks.Failf(sinks.Misconfigured, "the answer is not from an OTLP receiver: %w: http.url must end in /v1/logs", err)
	default:
		return nil // a message without a number is a warning
	}
	message := sinks.AnswerText(answer.message)
	f := &sinks.Failure{
		Kind: sinks.Rejected,
		Said: sinks.Answer{Status: strconv.Itoa(status), Text: message},
		Err:  fmt.Errorf("%d of %d log records rejected: %s", answer.rejected, len(b.Items), message),
	}
	if answer.rejected >= int64(len(b.Items)) {
		for i := range b.Items {
			f.Items = append(f.Items, i)
		}
	}
	return f
}
