package exporter

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/docket-export/docket/sources"
)

// maxDepth is how deeply a record may nest: the bound of encoding/json, so that
// whoever reads the record with it can.
const maxDepth = 10000

// jsonSpace is what JSON allows around a value within a line.
const jsonSpace = " \t\r"

// checkRecord returns why line cannot be a record, or an empty reason when it
// can: one JSON object (RFC 8259) in UTF-8, at most limit bytes long, with white
// space around it.
//
// gjson validates three times as fast as encoding/json and agrees with it but
// for the depth (fuzzed in record_test.go).
func checkRecord(line []byte, limit int) (reason sources.Reason, detail string) {
	if len(line) > limit {
		return sources.TooLarge, fmt.Sprintf("line of %d bytes, at most %d are allowed", len(line), limit)
	}
	if !utf8.Valid(line) {
		return sources.InvalidJSON, fmt.Sprintf("not UTF-8 at byte %d", invalidUTF8(line))
	}
	if !validJSON(line) {
		return sources.InvalidJSON, jsonFault(line)
	}
	if first := bytes.TrimLeft(line, jsonSpace)[0]; first != '{' {
		return sources.NotObject, "a JSON " + jsonKind(first) + ", not an object"
	}
	return "", ""
}

// validJSON leaves to the standard library what could be too deep: it bounds the
// depth, where gjson would take stack for every level, up to the end of the
// process.
func validJSON(line []byte) bool {
	if couldBeTooDeep(line) {
		return json.Valid(line)
	}
	return gjson.ValidBytes(line)
}

// couldBeTooDeep counts brackets wherever they stand, which is quick and never
// too few.
func couldBeTooDeep(line []byte) bool {
	return len(line) > maxDepth && bytes.Count(line, []byte{'['})+bytes.Count(line, []byte{'{'}) > maxDepth
}

// jsonFault says where a line stops being JSON.
func jsonFault(line []byte) string {
	var v json.RawMessage
	err := json.Unmarshal(line, &v)
	if fault, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Sprintf("%v, at byte %d", err, fault.Offset)
	}
	return "not valid JSON"
}

func invalidUTF8(line []byte) int {
	for i := 0; i < len(line); {
		r, size := utf8.DecodeRune(line[i:])
		if r == utf8.RuneError && size <= 1 {
			return i
		}
		i += size
	}
	return len(line)
}

func jsonKind(first byte) string {
	switch first {
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	return "number"
}
