package rawjson

import (
	"encoding/json"
	"math/bits"
	"unicode/utf8"
)

// Kind is the kind of a JSON value.
type Kind uint8

// The kinds. The zero Kind is no JSON.
const (
	Invalid Kind = iota
	Object
	Array
	String
	Number
	Boolean
	Null
)

var kindNames = [...]string{"invalid", "object", "array", "string", "number", "boolean", "null"}

// String returns the kind in lower case, for texts.
func (k Kind) String() string { return kindNames[k] }

// kinds has the kind of a value by its first byte.
var kinds = [256]Kind{
	'{': Object, '[': Array, '"': String, 't': Boolean, 'f': Boolean, 'n': Null, '-': Number,
	'0': Number, '1': Number, '2': Number, '3': Number, '4': Number,
	'5': Number, '6': Number, '7': Number, '8': Number, '9': Number,
}

// maxOpen is how many containers KindOf keeps account of by itself, a bit for each.
const maxOpen = 64

// KindOf returns the kind of the value that line is: one JSON value (RFC 8259) in UTF-8,
// nested at most 10,000 deep, with white space around it. Anything else is Invalid.
// KindOf agrees with json.Valid and utf8.Valid on every line.
//
// It allocates nothing and takes no stack for nesting. A line that nests deeper than 64
// is left to encoding/json, which takes at most 80 KB for it.
func KindOf(line []byte) Kind {
	var (
		open  uint64 // the containers around i, the innermost in the lowest bit: 1 is an object
		depth int    // how many they are
		name  bool   // the name of a member must come
		plain plainBlock
	)
	i, c := token(line, 0)
	kind := kinds[c]
	for {
		switch {
		case c == '"':
			// Not a function of its own: the call would cost a sixth of the time.
			for i++; ; {
				for i >= plain.end { // block by block, so that the processor can work ahead
					if plain.end >= len(line) {
						return Invalid
					}
					plain.next(line)
				}
				stops := plain.stops >> (i & (blockSize - 1))
				if stops == 0 {
					i = plain.end
					continue
				}
				i += bits.TrailingZeros64(stops)
				if c = at(line, i); c == '"' {
					break
				}
				if c != '\\' {
					return Invalid
				}
				switch c = at(line, i+1); {
				case escapes[c]:
					i += 2
				case c == 'u' && hasFourHex(line, i+2):
					i += 6
				default:
					return Invalid
				}
			}
			if i, c = token(line, i+1); name {
				if c != ':' {
					return Invalid
				}
				i, c = token(line, i+1)
				name = false
				continue
			}
		case name:
			return Invalid
		case c == '{' || c == '[':
			if depth++; depth > maxOpen {
				return kindOfDeep(line, kind)
			}
			open = open<<1 | uint64(c>>5&1)
			end := c + 2
			if i, c = token(line, i+1); c != end {
				name = open&1 == 1
				continue
			}
		default:
			if c == '-' || isDigit(c) {
				i = numberEnd(line, i)
			} else {
				i = literalEnd(line, i)
			}
			if i < 0 {
				return Invalid
			}
			i, c = token(line, i)
		}
		// A value has ended, and perhaps containers with it.
		for ; c != ','; i, c = token(line, i+1) {
			if depth == 0 {
				if i < len(line) || plain.other != 0 && !utf8.Valid(line) {
					return Invalid
				}
				return kind
			}
			if c != ']'+byte(open&1)<<5 {
				return Invalid
			}
			open >>= 1
			depth--
		}
		if depth == 0 {
			return Invalid
		}
		i, c = token(line, i+1)
		name = open&1 == 1
	}
}

// kindOfDeep is KindOf of a line that nests deeper than maxOpen. encoding/json bounds the depth.
func kindOfDeep(line []byte, kind Kind) Kind {
	if json.Valid(line) && utf8.Valid(line) {
		return kind
	}
	return Invalid
}
