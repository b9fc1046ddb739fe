// Package rawjson finds its way in the bytes of a JSON value without decoding it.
//
// It is for records, which are valid JSON in UTF-8 by the time anybody looks into
// them: it checks nothing. In other text it may find anything, but never an index
// beyond the end of it. Nesting costs it no stack.
package rawjson

import (
	"bytes"
	"encoding/json"
	"iter"
)

// SkipSpace returns the index of the first byte from text[i] on that is not white
// space.
func SkipSpace(text []byte, i int) int {
	for i < len(text) && isSpace(text[i]) {
		i++
	}
	return i
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// StringEnd returns the index after the string whose opening quote is text[i].
func StringEnd(text []byte, i int) int {
	for i++; ; i++ {
		n := bytes.IndexByte(text[min(i, len(text)):], '"')
		if n < 0 {
			return len(text)
		}
		if i += n; !isEscaped(text, i) {
			return i + 1
		}
	}
}

// isEscaped reports whether an odd number of backslashes stands before text[i].
func isEscaped(text []byte, i int) bool {
	first := i
	for first > 0 && text[first-1] == '\\' {
		first--
	}
	return (i-first)%2 == 1
}

// ValueEnd returns the index after the value that begins at text[i].
func ValueEnd(text []byte, i int) int {
	for depth := 0; i < len(text); {
		switch text[i] {
		case '"':
			i = StringEnd(text, i)
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\t', '\n', '\r': // between the tokens of an array or object
			i++
			continue
		default:
			i = scalarEnd(text, i)
		}
		if depth <= 0 {
			return i
		}
	}
	return len(text)
}

// scalarEnd returns the index after the number or literal that begins at text[i].
func scalarEnd(text []byte, i int) int {
	for i++; i < len(text); i++ {
		switch text[i] {
		case ',', ':', '}', ']', '"', '{', '[', ' ', '\t', '\n', '\r':
			return i
		}
	}
	return i
}

// Name returns the member name whose opening quote is text[i], without quotes and
// escapes, and the index of the member's value. The name is a part of text unless
// it has escapes.
func Name(text []byte, i int) (name []byte, value int) {
	end := StringEnd(text, i)
	value = SkipSpace(text, end)
	if value < len(text) && text[value] == ':' {
		value = SkipSpace(text, value+1)
	}
	return Unquote(text[i:end]), value
}

// Unquote returns what quoted, a string with its quotes, says. Without escapes it is
// a part of quoted. Half a surrogate pair is U+FFFD, as for encoding/json.
func Unquote(quoted []byte) []byte {
	if len(quoted) < 2 {
		return nil
	}
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	var s string
	if json.Unmarshal(quoted, &s) != nil {
		return inner
	}
	return []byte(s)
}

// Members yields the name, as Name returns it, and the text of the value of each
// member of object.
func Members(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		for i := nextElement(object, 0); i < len(object) && object[i] == '"'; {
			name, begin := Name(object, i)
			end := ValueEnd(object, begin)
			if !yield(name, object[begin:end]) {
				return
			}
			i = nextElement(object, end)
		}
	}
}

// Items yields the text of each item of array.
func Items(array []byte) iter.Seq[[]byte] {
	return func(yield func(item []byte) bool) {
		for i := nextElement(array, 0); i < len(array) && array[i] != ']'; {
			end := ValueEnd(array, i)
			if !yield(array[i:end]) {
				return
			}
			i = nextElement(array, end)
		}
	}
}

// nextElement steps from text[i] over an opening bracket or a comma, and the white
// space around it.
func nextElement(text []byte, i int) int {
	i = SkipSpace(text, i)
	if i < len(text) && (text[i] == '{' || text[i] == '[' || text[i] == ',') {
		i = SkipSpace(text, i+1)
	}
	return i
}
