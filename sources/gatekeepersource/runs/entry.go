package runs

import (
	"bytes"
	"encoding/json"
)

// maxNesting is how deeply a record may nest: the bound of encoding/json, and of what the
// intake stores.
const maxNesting = 10_000

// jsonSpace is what JSON allows around a value.
const jsonSpace = " \t\r\n"

// isBlank reports a line that the intake gives no number.
func isBlank(text []byte) bool {
	return len(text) == 0 || text[0] != '{' && len(bytes.TrimLeft(text, jsonSpace)) == 0
}

// entry is what the tally needs of a record: the text of each string, with its escapes,
// nil where there is none. Of two members with one name the last counts.
type entry struct{ id, eventType, group, kind, name, message []byte }

func (e *entry) field(name []byte) *[]byte {
	switch string(name) {
	case "id":
		return &e.id
	case "eventType":
		return &e.eventType
	case "group":
		return &e.group
	case "kind":
		return &e.kind
	case "name":
		return &e.name
	case "message":
		return &e.message
	}
	return nil
}

// parseRecord reads a record. It is none, and ok is false, unless it is what the intake
// stores: a JSON object (RFC 8259) in UTF-8, with white space around it. It looks at each
// byte once, takes no stack for nesting, and what it returns is a part of text.
func parseRecord(text []byte) (e entry, ok bool) {
	i := skipSpace(text, 0)
	if i == len(text) || text[i] != '{' {
		return e, false
	}
	var outer [16]byte // most records nest no deeper
	open := outer[:0]  // what is to be closed
	for {
		field := (*[]byte)(nil)
		if len(open) > 0 && open[len(open)-1] == '}' {
			if text[i] != '"' {
				return e, false
			}
			end := stringEnd(text, i+1)
			if end < 0 {
				return e, false
			}
			if len(open) == 1 {
				field = e.field(text[i+1 : end-1])
			}
			if i = skipSpace(text, end); i == len(text) || text[i] != ':' {
				return e, false
			}
			i = skipSpace(text, i+1)
		}
		if i == len(text) {
			return e, false
		}
		switch c := text[i]; c {
		case '"':
			end := stringEnd(text, i+1)
			if end < 0 {
				return e, false
			}
			if field != nil {
				*field = text[i+1 : end-1]
			}
			i = end
		case '{', '[':
			if open = append(open, c+2); len(open) > maxNesting { // '}' and ']' are two further
				return e, false
			}
			if i = skipSpace(text, i+1); i < len(text) && text[i] != c+2 {
				continue
			}
		default:
			if i = wordEnd(text, i); i < 0 {
				return e, false
			}
		}
		if i+1 < len(text) && text[i] == ',' && text[i+1] > ' ' { // as most values are followed
			i++
			continue
		}
		if i, open, ok = closeAll(text, i, open); !ok || len(open) == 0 {
			return e, ok
		}
	}
}

// closeAll steps over what follows a value: the end of arrays and objects, and a comma.
// It returns the index of what comes next, and what is still to be closed.
func closeAll(text []byte, i int, open []byte) (int, []byte, bool) {
	for {
		i = skipSpace(text, i)
		switch {
		case len(open) == 0:
			return i, open, i == len(text)
		case i == len(text):
			return i, open, false
		case text[i] == ',':
			i = skipSpace(text, i+1)
			return i, open, i < len(text)
		case text[i] != open[len(open)-1]:
			return i, open, false
		}
		open = open[:len(open)-1]
		i++
	}
}

// unquote is the text of a string that has its escapes.
func unquote(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw)
	}
	var text string
	if json.Unmarshal(append(append([]byte{'"'}, raw...), '"'), &text) != nil {
		return string(raw)
	}
	return text
}
