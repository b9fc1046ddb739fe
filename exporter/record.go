package exporter

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/docket-export/docket/decision/rawjson"
	"github.com/docket-export/docket/sources"
)

// jsonSpace are the bytes that JSON allows around a value within a line.
const jsonSpace = " \t\r"

// checkRecord returns why line cannot be a record, or an empty reason when it
// can: one JSON object (RFC 8259) in UTF-8, at most limit bytes long and nested at
// most 10,000 deep, with white space around it.
func checkRecord(line []byte, limit int) (reason sources.Reason, detail string) {
	if len(line) > limit {
		return sources.TooLarge, fmt.Sprintf("line of %d bytes, at most %d are allowed", len(line), limit)
	}
	switch kind := rawjson.KindOf(line); kind {
	case rawjson.Object:
		return "", ""
	case rawjson.Invalid:
		return sources.InvalidJSON, jsonFault(line)
	default:
		return sources.NotObject, "a JSON " + kind.String() + ", not an object"
	}
}

// jsonFault says where a line stops being JSON in UTF-8.
func jsonFault(line []byte) string {
	if at := invalidUTF8(line); at < len(line) {
		return fmt.Sprintf("not UTF-8 at byte %d", at)
	}
	var v json.RawMessage
	err := json.Unmarshal(line, &v)
	if fault, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Sprintf("%v, at byte %d", err, fault.Offset)
	}
	return "not valid JSON"
}

// invalidUTF8 returns where line stops being UTF-8, len(line) if it does not.
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
