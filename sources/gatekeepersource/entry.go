package gatekeepersource

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math/bits"
	"unicode/utf8"
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
	if i == len(text) || text[i] != '{' || !utf8.Valid(text) {
		return e, false
	}
	var outer [16]byte // most records nest no deeper
	open := outer[:0]  // what is to be closed
	for {
		field := (*[]byte)(nil)
		if len(open) > 0 && open[len(open)-1] == '}' {
			end := stringEnd(text, i)
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
		case '{', '[':
			if open = append(open, c+2); len(open) > maxNesting { // '}' and ']' are two further
				return e, false
			}
			if i = skipSpace(text, i+1); i < len(text) && text[i] != c+2 {
				continue
			}
		default:
			end := scalarEnd(text, i)
			if end < 0 {
				return e, false
			}
			if field != nil && c == '"' {
				*field = text[i+1 : end-1]
			}
			i = end
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

func skipSpace(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\t' || text[i] == '\r' || text[i] == '\n') {
		i++
	}
	return i
}

// stringEnd returns the index after the string that begins at text[i], -1 if none does.
func stringEnd(text []byte, i int) int {
	if text[i] != '"' {
		return -1
	}
	for i++; ; {
		if i = plainEnd(text, i); i == len(text) {
			return -1
		}
		switch text[i] {
		case '"':
			return i + 1
		case '\\':
			if i = escapeEnd(text, i+1); i < 0 {
				return -1
			}
		default: // a control character
			return -1
		}
	}
}

// plainEnd returns the index of the first byte from text[i] on that is a quote, a
// backslash or a control character. It looks at eight at a time: for each of the three
// the lowest byte in question has its highest bit set, and none below it has.
func plainEnd(text []byte, i int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(text); i += 8 {
		w := binary.LittleEndian.Uint64(text[i:])
		quote, backslash := w^(ones*'"'), w^(ones*'\\')
		found := ((quote-ones)&^quote | (backslash-ones)&^backslash | (w-ones*' ')&^w) & highs
		if found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for i < len(text) && text[i] != '"' && text[i] != '\\' && text[i] >= ' ' {
		i++
	}
	return i
}

// escapeEnd returns the index after the escape whose backslash is before text[i], -1 if
// it is none.
func escapeEnd(text []byte, i int) int {
	if i == len(text) {
		return -1
	}
	switch text[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 1
	case 'u':
		for n := 1; n <= 4; n++ {
			if i+n == len(text) || !isHex(text[i+n]) {
				return -1
			}
		}
		return i + 5
	}
	return -1
}

func isHex(c byte) bool {
	return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f'
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// scalarEnd returns the index after the string, number or literal that begins at
// text[i], -1 if none does.
func scalarEnd(text []byte, i int) int {
	switch text[i] {
	case '"':
		return stringEnd(text, i)
	case 't':
		return literalEnd(text, i, "true")
	case 'f':
		return literalEnd(text, i, "false")
	case 'n':
		return literalEnd(text, i, "null")
	}
	return numberEnd(text, i)
}

func literalEnd(text []byte, i int, literal string) int {
	if !bytes.HasPrefix(text[i:], []byte(literal)) {
		return -1
	}
	return i + len(literal)
}

func numberEnd(text []byte, i int) int {
	if text[i] == '-' {
		i++
	}
	if i < len(text) && text[i] == '0' {
		i++
	} else if i = digitsEnd(text, i); i < 0 {
		return -1
	}
	if i < len(text) && text[i] == '.' {
		if i = digitsEnd(text, i+1); i < 0 {
			return -1
		}
	}
	if i < len(text) && text[i]|0x20 == 'e' {
		if i++; i < len(text) && (text[i] == '+' || text[i] == '-') {
			i++
		}
		i = digitsEnd(text, i)
	}
	return i
}

// digitsEnd returns the index after the digits that begin at text[i], -1 if none do.
func digitsEnd(text []byte, i int) int {
	first := i
	for i < len(text) && isDigit(text[i]) {
		i++
	}
	if i == first {
		return -1
	}
	return i
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
