package encoding

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/docket-export/docket/sinks"
)

// The fields that are written, by message. Numbers are those of the .proto files.
const (
	requestResourceLogs protowire.Number = 1

	resourceLogsResource  protowire.Number = 1
	resourceLogsScopeLogs protowire.Number = 2
	resourceAttributes    protowire.Number = 1

	scopeLogsScope      protowire.Number = 1
	scopeLogsLogRecords protowire.Number = 2
	scopeNameField      protowire.Number = 1

	logRecordTime           protowire.Number = 1
	logRecordSeverityNumber protowire.Number = 2
	logRecordSeverityText   protowire.Number = 3
	logRecordBody           protowire.Number = 5
	logRecordAttributes     protowire.Number = 6
	logRecordObservedTime   protowire.Number = 11

	keyValueKey    protowire.Number = 1
	keyValueValue  protowire.Number = 2
	anyValueString protowire.Number = 1
	anyValueInt    protowire.Number = 3

	responsePartialSuccess protowire.Number = 1
	partialSuccessRejected protowire.Number = 1
	partialSuccessMessage  protowire.Number = 2
)

// otlpProtobuf writes OTLP as protobuf. It is written by hand because the
// generated types would take some twenty allocations a record.
type otlpProtobuf struct {
	resource []byte // the field ResourceLogs.resource
	scope    []byte // the field ScopeLogs.scope
}

func newOTLPProtobuf(resource map[string]string) *otlpProtobuf {
	e := &otlpProtobuf{}
	var start int
	e.resource, start = openMessage(e.resource, resourceLogsResource)
	for _, name := range slices.Sorted(maps.Keys(resource)) {
		e.resource = appendStringAttribute(e.resource, resourceAttributes, name, resource[name])
	}
	e.resource = closeMessage(e.resource, start)
	e.scope, start = openMessage(e.scope, scopeLogsScope)
	e.scope = appendText(e.scope, scopeNameField, scopeName)
	e.scope = closeMessage(e.scope, start)
	return e
}

func (e *otlpProtobuf) appendRequest(dst []byte, b *sinks.Batch, describe func(*sinks.Item) logRecord) []byte {
	dst, resourceLogs := openMessage(dst, requestResourceLogs)
	dst = append(dst, e.resource...)
	dst, scopeLogs := openMessage(dst, resourceLogsScopeLogs)
	dst = append(dst, e.scope...)
	for i := range b.Items {
		var record int
		dst, record = openMessage(dst, scopeLogsLogRecords)
		dst = appendProtobufRecord(dst, b, i, describe(&b.Items[i]))
		dst = closeMessage(dst, record)
	}
	dst = closeMessage(dst, scopeLogs)
	return closeMessage(dst, resourceLogs)
}

func appendProtobufRecord(dst []byte, b *sinks.Batch, i int, r logRecord) []byte {
	it := &b.Items[i]
	if r.made != 0 {
		dst = protowire.AppendTag(dst, logRecordTime, protowire.Fixed64Type)
		dst = protowire.AppendFixed64(dst, r.made)
	}
	dst = protowire.AppendTag(dst, logRecordObservedTime, protowire.Fixed64Type)
	dst = protowire.AppendFixed64(dst, r.observed)
	if r.severity != severityNone {
		dst = protowire.AppendTag(dst, logRecordSeverityNumber, protowire.VarintType)
		dst = protowire.AppendVarint(dst, uint64(r.severity))
	}
	if r.text != "" {
		dst = appendText(dst, logRecordSeverityText, r.text)
	}
	dst, body := openMessage(dst, logRecordBody)
	dst = appendText(dst, anyValueString, it.Record)
	dst = closeMessage(dst, body)

	var room [64]byte // an id has at most 57 bytes
	id := appendID(room[:0], b, i)
	dst = appendStringAttribute(dst, logRecordAttributes, "log.record.uid", id)
	dst = appendStringAttribute(dst, logRecordAttributes, "docket.id", id)
	dst = appendIntAttribute(dst, "docket.seq", it.Seq)
	dst = appendStringAttribute(dst, logRecordAttributes, "docket.source", it.Source)
	if it.Producer != "" {
		dst = appendStringAttribute(dst, logRecordAttributes, "docket.producer", it.Producer)
	}
	if it.Late != sinks.OnTime {
		dst = appendStringAttribute(dst, logRecordAttributes, "docket.late", string(it.Late))
	}
	return dst
}

// appendStringAttribute appends a KeyValue as field n of the message around it.
func appendStringAttribute[S string | []byte](dst []byte, n protowire.Number, key string, value S) []byte {
	dst, attribute := openMessage(dst, n)
	dst = appendText(dst, keyValueKey, key)
	dst, anyValue := openMessage(dst, keyValueValue)
	dst = appendText(dst, anyValueString, value)
	dst = closeMessage(dst, anyValue)
	return closeMessage(dst, attribute)
}

// appendIntAttribute appends a KeyValue as an attribute of a log record.
func appendIntAttribute(dst []byte, key string, value uint64) []byte {
	dst, attribute := openMessage(dst, logRecordAttributes)
	dst = appendText(dst, keyValueKey, key)
	dst, anyValue := openMessage(dst, keyValueValue)
	dst = protowire.AppendTag(dst, anyValueInt, protowire.VarintType)
	dst = protowire.AppendVarint(dst, value)
	dst = closeMessage(dst, anyValue)
	return closeMessage(dst, attribute)
}

func appendText[S string | []byte](dst []byte, n protowire.Number, text S) []byte {
	dst = protowire.AppendTag(dst, n, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(len(text)))
	return append(dst, text...)
}

// openMessage begins field n, a message whose length is not known yet. The
// message is appended behind it, and ended by closeMessage.
func openMessage(dst []byte, n protowire.Number) (opened []byte, start int) {
	dst = protowire.AppendTag(dst, n, protowire.BytesType)
	return dst, len(dst)
}

// closeMessage puts the length before the message that begins at start. Moving
// its bytes costs less than to measure everything first.
func closeMessage(dst []byte, start int) []byte {
	length := len(dst) - start
	var room [10]byte
	prefix := protowire.AppendVarint(room[:0], uint64(length))
	dst = append(dst, prefix...)
	copy(dst[start+len(prefix):], dst[start:start+length])
	copy(dst[start:], prefix)
	return dst
}

// readAnswer reads an ExportLogsServiceResponse, which is empty where all was taken.
func (*otlpProtobuf) readAnswer(body []byte) (partialSuccess, error) {
	var p partialSuccess
	err := readMessage(body, func(n protowire.Number, value fieldValue) error {
		if n != responsePartialSuccess || value.kind != protowire.BytesType {
			return nil
		}
		return readMessage(value.bytes, func(n protowire.Number, value fieldValue) error {
			switch {
			case n == partialSuccessRejected && value.kind == protowire.VarintType:
				p.rejected = int64(value.varint)
			case n == partialSuccessMessage && value.kind == protowire.BytesType:
				p.message = string(value.bytes)
			}
			return nil
		})
	})
	return p, err
}

// fieldValue is the value of one field, as far as answers have such.
type fieldValue struct {
	kind   protowire.Type
	varint uint64 // when kind is VarintType
	bytes  []byte // when kind is BytesType
}

var errNoMessage = errors.New("no protobuf message")

// readMessage calls field for every field of a message. The last one may be cut
// off: it is passed as far as it is there, and errCutOff returned.
func readMessage(message []byte, field func(protowire.Number, fieldValue) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return fmt.Errorf("%w: %w", errNoMessage, protowire.ParseError(n))
		}
		message = message[n:]
		value := fieldValue{kind: kind}
		switch kind {
		case protowire.VarintType:
			value.varint, n = protowire.ConsumeVarint(message)
		case protowire.BytesType:
			value.bytes, n = protowire.ConsumeBytes(message)
			if length, prefix := protowire.ConsumeVarint(message); n < 0 && prefix > 0 && length > uint64(len(message)-prefix) {
				value.bytes = message[prefix:]
				return cmp.Or(field(number, value), errCutOff)
			}
		default:
			n = protowire.ConsumeFieldValue(number, kind, message)
		}
		if n < 0 {
			return fmt.Errorf("%w: %w", errNoMessage, protowire.ParseError(n))
		}
		message = message[n:]
		if err := field(number, value); err != nil {
			return err
		}
	}
	return nil
}
