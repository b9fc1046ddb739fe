package encoding

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/docket-export/docket/decision/rawjson"
	"github.com/docket-export/docket/sinks"
)

// otlpJSON writes OTLP as JSON: names in camelCase, 64-bit numbers as strings,
// enumerations as numbers.
//
// https://github.com/open-telemetry/opentelemetry-proto/blob/v1.9.0/docs/specification.md#json-protobuf-encoding
type otlpJSON struct {
	head []byte // a request up to the first log record
}

func newOTLPJSON(resource map[string]string) *otlpJSON {
	head := []byte(`{"resourceLogs":[{"resource":{"attributes":`)
	for i, name := range slices.Sorted(maps.Keys(resource)) {
		head = append(head, separator(i))
		head = appendAttribute(head, name, resource[name])
	}
	head = append(head, `]},"scopeLogs":[{"scope":{"name":"`+scopeName+`"},"logRecords":`...)
	return &otlpJSON{head: head}
}

func (e *otlpJSON) appendRequest(dst []byte, b *sinks.Batch, describe func(*sinks.Item) logRecord) []byte {
	dst = append(dst, e.head...)
	for i := range b.Items {
		dst = append(dst, separator(i))
		dst = appendOTLPJSONRecord(dst, b, i, describe(&b.Items[i]))
	}
	return append(dst, `]}]}]}`...)
}

func appendOTLPJSONRecord(dst []byte, b *sinks.Batch, i int, r logRecord) []byte {
	it := &b.Items[i]
	dst = append(dst, '{')
	if r.made != 0 {
		dst = append(dst, `"timeUnixNano":"`...)
		dst = strconv.AppendUint(dst, r.made, 10)
		dst = append(dst, `",`...)
	}
	dst = append(dst, `"observedTimeUnixNano":"`...)
	dst = strconv.AppendUint(dst, r.observed, 10)
	dst = append(dst, '"')
	if r.severity != severityNone {
		dst = append(dst, `,"severityNumber":`...)
		dst = strconv.AppendUint(dst, uint64(r.severity), 10)
	}
	if r.text != "" {
		dst = appendMember(dst, "severityText", r.text)
	}
	dst = append(dst, `,"body":{"stringValue":`...)
	dst = appendString(dst, it.Record)
	dst = append(dst, `},"attributes":[{"key":"log.record.uid","value":{"stringValue":"`...)
	dst = appendID(dst, b, i)
	dst = append(dst, `"}},{"key":"docket.id","value":{"stringValue":"`...)
	dst = appendID(dst, b, i)
	dst = append(dst, `"}},{"key":"docket.seq","value":{"intValue":"`...)
	dst = strconv.AppendUint(dst, it.Seq, 10)
	dst = append(dst, `"}},`...)
	dst = appendAttribute(dst, "docket.source", it.Source)
	if it.Producer != "" {
		dst = append(dst, ',')
		dst = appendAttribute(dst, "docket.producer", it.Producer)
	}
	if it.Late != sinks.OnTime {
		dst = append(dst, ',')
		dst = appendAttribute(dst, "docket.late", string(it.Late))
	}
	return append(dst, ']', '}')
}

// appendAttribute appends a KeyValue whose value is a string.
func appendAttribute(dst []byte, key, value string) []byte {
	dst = append(dst, `{"key":`...)
	dst = appendString(dst, key)
	dst = append(dst, `,"value":{"stringValue":`...)
	dst = appendString(dst, value)
	return append(dst, '}', '}')
}

func (*otlpJSON) readAnswer(body []byte) (partialSuccess, error) { return readOTLPJSON(body) }

// readOTLPJSON reads an ExportLogsServiceResponse. A number may stand with or
// without quotes. An object of other members only is the answer of another service.
func readOTLPJSON(body []byte) (partialSuccess, error) {
	var answer struct {
		PartialSuccess struct {
			RejectedLogRecords json.RawMessage `json:"rejectedLogRecords"`
			ErrorMessage       string          `json:"errorMessage"`
		} `json:"partialSuccess"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		if errors.Is(whyInvalid(body), errCutOff) {
			return readCutOTLPJSON(body), errCutOff
		}
		return partialSuccess{}, fmt.Errorf("read JSON: %w", err)
	}
	if rawjson.Member(body, "partialSuccess") == nil && len(bytes.Trim(body, "{} \t\r\n")) > 0 {
		return partialSuccess{}, errors.New(`it has no member "partialSuccess"`)
	}
	p := partialSuccess{message: answer.PartialSuccess.ErrorMessage}
	number := string(answer.PartialSuccess.RejectedLogRecords)
	if number == "" || number == "null" {
		return p, nil
	}
	if unquoted, err := strconv.Unquote(number); err == nil {
		number = unquoted
	}
	var err error
	if p.rejected, err = strconv.ParseInt(number, 10, 64); err != nil {
		return partialSuccess{}, fmt.Errorf("read rejectedLogRecords: %w", err)
	}
	return p, nil
}

// readCutOTLPJSON reads what there is of an answer that breaks off, in the text
// of the message if it is a long one.
func readCutOTLPJSON(body []byte) partialSuccess {
	partial := rawjson.Member(body, "partialSuccess")
	return partialSuccess{
		rejected: wholeNumber(rawjson.Member(partial, "rejectedLogRecords")),
		message:  rawjson.Member(partial, "errorMessage").String(),
	}
}
