package rawjson

import (
	"bytes"
	"encoding/binary"
	"iter"
	"math/bits"
	"strconv"
	"strings"
)

// Value is the text of one JSON value, without white space around it. It is nil where
// there is no value.
type Value []byte

// Kind returns the kind of v by its first byte, Invalid for nil.
func (v Value) Kind() Kind {
	if len(v) == 0 {
		return Invalid
	}
	return kinds[v[0]]
}

// Bytes returns the text of a string as Text does, nothing for null and nil, and any other
// value as it is written.
func (v Value) Bytes() []byte {
	switch v.Kind() {
	case String:
		return v.Text()
	case Null:
		return nil
	}
	return v
}

// String returns Bytes as a string.
func (v Value) String() string { return string(v.Bytes()) }

// Get returns the value at path in text, nil where there is none. The path is names joined by
// dots. In an array a name is an index. Of members with the same name the last counts.
func Get(text []byte, path string) Value {
	text = text[SkipSpace(text, 0):]
	name, rest, more := strings.Cut(path, ".")
	var found Value
	switch Value(text).Kind() {
	case Object:
		found = Member(text, name)
	case Array:
		index, err := strconv.ParseUint(name, 10, 31)
		if err != nil {
			return nil
		}
		for v := range Items(text) {
			if index == 0 {
				found = v
				break
			}
			index--
		}
	}
	if found == nil || !more {
		return found
	}
	return Get(found, rest)
}

// Member returns the last member called name of object, nil where there is none.
func Member(object []byte, name string) (found Value) {
	for n, v := range Members(object) {
		if string(n) == name {
			found = v
		}
	}
	return found
}

// Members yields the name, as Name returns it, and the value of each member of object.
func Members(object []byte) iter.Seq2[[]byte, Value] {
	return func(yield func(name []byte, v Value) bool) {
		for i := nextElement(object, 0); i < len(object) && object[i] == '"'; {
			name, begin := Name(object, i)
			end := ValueEnd(object, begin)
			if end == begin || !yield(name, object[begin:end]) {
				return
			}
			i = nextElement(object, end)
		}
	}
}

// Items yields each item of array.
func Items(array []byte) iter.Seq[Value] {
	return func(yield func(item Value) bool) {
		for i := nextElement(array, 0); i < len(array); {
			end := ValueEnd(array, i)
			if end == i || !yield(array[i:end]) {
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

// SkipSpace returns the index of the first byte from text[i] on that is not white
// space.
func SkipSpace(text []byte, i int) int {
	for i < len(text) && text[i] <= ' ' && isSpace(text[i]) { // most bytes need one comparison
		i++
	}
	return i
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// Name returns the member name whose opening quote is text[i], as Value.Text does, and
// the index of the member's value.
func Name(text []byte, i int) (name []byte, value int) {
	end := plainEnd(text, i+1)
	if end < len(text) && text[end] == '"' { // nearly always
		name = text[i+1 : end]
		end++
	} else {
		end = StringEnd(text, i)
		name = Value(text[i:end]).Text()
	}
	value = SkipSpace(text, end)
	if value < len(text) && text[value] == ':' {
		value = SkipSpace(text, value+1)
	}
	return name, value
}

// StringEnd returns the index after the string whose opening quote is text[i].
func StringEnd(text []byte, i int) int {
	const short = 32 // bytes, for which IndexByte costs more
	i++
	// As plainEnd does, without the cost of a call, which a short string feels.
	for last := min(i+short, len(text)) - 8; i <= last; i += 8 {
		if odd := oddBytes(binary.LittleEndian.Uint64(text[i:i+8])) & highBits; odd != 0 {
			if i += bits.TrailingZeros64(odd) / 8; text[i] == '"' {
				return i + 1
			}
			break
		}
	}
	for ; i < len(text); i++ {
		n := bytes.IndexByte(text[i:], '"')
		if n < 0 {
			break
		}
		if i += n; !isEscaped(text, i) {
			return i + 1
		}
	}
	return len(text)
}

// isEscaped reports whether an odd number of backslashes stands before text[i].
func isEscaped(text []byte, i int) bool {
	first := i
	for first > 0 && text[first-1] == '\\' {
		first--
	}
	return (i-first)%2 == 1
}

// ValueEnd returns the index after the value that begins at text[i], and i where none
// begins.
func ValueEnd(text []byte, i int) int {
	if i == len(text) {
		return i
	}
	switch text[i] {
	case '"':
		return StringEnd(text, i)
	case '{', '[':
		for depth := 0; i < len(text); {
			switch c := text[i]; c {
			case '"':
				i = StringEnd(text, i)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
			i++
		}
		return i
	}
	return i + scalarEnd(text[i:])
}

// scalarEnd returns the index after the number or word that text begins with.
func scalarEnd(text []byte) (end int) {
	for end < len(text) && inScalar[text[end]] {
		end++
	}
	return end
}

// End finds the end of a value that comes in pieces. It counts brackets, of whatever
// kind, outside of strings. The zero value is ready.
type End struct {
	began    bool
	scalar   bool // a number, a word, or no value at all
	inString bool
	escaped  bool // the first byte of the next piece follows a backslash
	depth    int  // of open brackets
}

// inContainer are the bytes that End skips within an array or object, and inScalar those
// that a number or word consists of.
var (
	inContainer = allBut("\"{}[]")
	inScalar    = allBut(",:]}[{\" \t\r\n")
)

func allBut(bytes string) (t [256]bool) {
	for i := range t {
		t[i] = strings.IndexByte(bytes, byte(i)) < 0
	}
	return t
}

// Next returns how many bytes of p, which follows the pieces before, belong to the
// value, and whether the value ends there. A scalar ends in front of the byte that
// follows it.
func (e *End) Next(p []byte) (n int, done bool) {
	if !e.began && len(p) > 0 {
		e.began = true
		e.scalar = p[0] != '"' && p[0] != '{' && p[0] != '['
	}
	if e.scalar {
		n = scalarEnd(p)
		return n, n < len(p)
	}
	for n < len(p) {
		if !e.inString {
			n += e.betweenStrings(p[n:])
		}
		if e.inString {
			n += e.withinString(p[n:])
		}
		if e.depth == 0 && !e.inString {
			return n, true
		}
	}
	return n, false
}

// betweenStrings goes on behind the quote of the next string, or the end of the value or
// of p, and returns how many bytes these are.
func (e *End) betweenStrings(p []byte) int {
	for i, c := range p {
		if inContainer[c] {
			continue
		}
		switch c {
		case '"':
			e.inString = true
			return i + 1
		case '{', '[':
			e.depth++
		default:
			if e.depth--; e.depth == 0 {
				return i + 1
			}
		}
	}
	return len(p)
}

// withinString goes on behind the end of the string, or that of p, and returns how many
// bytes these are.
func (e *End) withinString(p []byte) int {
	i := 0
	if e.escaped && len(p) > 0 {
		i, e.escaped = 1, false
	}
	const short = 64 // bytes, for which IndexByte costs more
	for begin := i; i+8 <= len(p) && i < begin+short; {
		stops := stringStops(binary.LittleEndian.Uint64(p[i : i+8]))
		if stops == 0 {
			i += 8
			continue
		}
		i += bits.TrailingZeros64(stops) / 8
		if p[i] == '"' {
			e.inString = false
			return i + 1
		}
		if i+1 == len(p) {
			e.escaped = true
			return i + 1
		}
		i += 2
	}
	rest := p[i:]
	end := StringEnd(rest, -1)
	if end > 0 && rest[end-1] == '"' && !isEscaped(rest, end-1) {
		e.inString = false
	} else {
		e.escaped = isEscaped(rest, len(rest))
	}
	return i + end
}

// stringStops sets the high bit of the first byte of w, counted from the lowest, that is
// a quote or a backslash, and of no byte before it; with none, it sets no bit.
func stringStops(w uint64) uint64 {
	quote, backslash := w^'"'*everyByte, w^'\\'*everyByte
	return ((quote-everyByte)&^quote | (backslash-everyByte)&^backslash) & highBits
}
