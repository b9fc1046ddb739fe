package decision

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// maxDepth is how deeply Details may nest: the bound of encoding/json, so that
// whoever reads the record with it can.
const maxDepth = 10000

// tokens is a set of what the grammar allows next; nothing, once the value is
// complete.
type tokens uint8

const (
	valueToken tokens = 1 << iota
	nameToken
	colonToken
	commaToken
	endToken // of the innermost array or object
)

// scanJSON reports whether src is one JSON value (RFC 8259) in UTF-8, nested at
// most maxDepth deep, and whether white space stands around its tokens. Nesting
// costs it a byte for each level, and no stack.
func scanJSON(src []byte) (valid, spaced bool) {
	var few [32]byte // on the stack; details are rarely nested deeper
	open := few[:0]  // the bracket that will end each open array and object
	next := valueToken
	for i := 0; i < len(src); {
		c := src[i]
		switch c {
		case ' ', '\t', '\n', '\r':
			spaced = true
		case '[', '{':
			if next&valueToken == 0 || len(open) == maxDepth {
				return false, false
			}
			open = append(open, c+2) // in ASCII the ending bracket is two on
			next = elementOf(open) | endToken
		case ']', '}':
			if next&endToken == 0 || open[len(open)-1] != c {
				return false, false
			}
			open = open[:len(open)-1]
			next = afterValue(open)
		case ',':
			if next&commaToken == 0 {
				return false, false
			}
			next = elementOf(open)
		case ':':
			if next&colonToken == 0 {
				return false, false
			}
			next = valueToken
		case '"':
			switch {
			case next&nameToken != 0:
				next = colonToken
			case next&valueToken != 0:
				next = afterValue(open)
			default:
				return false, false
			}
			if i = stringEnd(src, i); i == 0 {
				return false, false
			}
			continue
		default:
			if next&valueToken == 0 {
				return false, false
			}
			next = afterValue(open)
			if i = wordEnd(src, i); i == 0 {
				return false, false
			}
			continue
		}
		i++
	}
	return next == 0, spaced
}

// elementOf is what the innermost array or object consists of.
func elementOf(open []byte) tokens {
	if open[len(open)-1] == '}' {
		return nameToken
	}
	return valueToken
}

func afterValue(open []byte) tokens {
	if len(open) > 0 {
		return commaToken | endToken
	}
	return 0
}

// appendWithoutSpace appends src, which must be valid, without the white space
// around its tokens.
func appendWithoutSpace(dst, src []byte) []byte {
	kept := 0 // src[kept:i] is still to be appended
	for i := 0; i < len(src); {
		switch {
		case src[i] == '"':
			i = stringEnd(src, i)
		case isSpace(src[i]):
			dst = append(dst, src[kept:i]...)
			i++
			kept = i
		default:
			i++
		}
	}
	return append(dst, src[kept:]...)
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// wordEnd returns the index after the number or literal that begins at src[i]. Like
// the functions below it returns 0 when there is none, an index that cannot be after
// anything.
func wordEnd(src []byte, i int) int {
	switch src[i] {
	case 't':
		return literalEnd(src, i, "true")
	case 'f':
		return literalEnd(src, i, "false")
	case 'n':
		return literalEnd(src, i, "null")
	}
	return numberEnd(src, i)
}

func literalEnd(src []byte, i int, literal string) int {
	if end := i + len(literal); end <= len(src) && string(src[i:end]) == literal {
		return end
	}
	return 0
}

func numberEnd(src []byte, i int) int {
	if src[i] == '-' {
		i++
	}
	if i < len(src) && src[i] == '0' {
		i++
	} else if i = digitsEnd(src, i); i == 0 {
		return 0
	}
	if i < len(src) && src[i] == '.' {
		if i = digitsEnd(src, i+1); i == 0 {
			return 0
		}
	}
	if i < len(src) && (src[i] == 'e' || src[i] == 'E') {
		i++
		if i < len(src) && (src[i] == '+' || src[i] == '-') {
			i++
		}
		return digitsEnd(src, i)
	}
	return i
}

// digitsEnd wants at least one digit.
func digitsEnd(src []byte, i int) int {
	begin := i
	for i < len(src) && '0' <= src[i] && src[i] <= '9' {
		i++
	}
	if i == begin {
		return 0
	}
	return i
}

// stringEnd returns the index after the string whose quote is src[i]. The end of one
// without escapes, in ASCII, and with eight bytes behind it, is found without a call.
func stringEnd(src []byte, i int) int {
	for i++; i+8 <= len(src); i += 8 {
		if odd := oddBytes(binary.LittleEndian.Uint64(src[i:i+8])) & highBits; odd != 0 {
			i += bits.TrailingZeros64(odd) / 8
			if src[i] == '"' {
				return i + 1
			}
			break
		}
	}
	return textEnd(src, i)
}

// textEnd returns the index after the string that goes on at src[i].
func textEnd(src []byte, i int) int {
	for {
		i = plainEnd(src, i)
		if i == len(src) {
			return 0
		}
		switch c := src[i]; {
		case c == '"':
			return i + 1
		case c == '\\':
			i = escapeEnd(src, i)
		case c < ' ':
			return 0
		default:
			i = runeEnd(src, i)
		}
		if i == 0 {
			return 0
		}
	}
}

// plainEnd returns the index of the first byte from src[i] on that is not plain.
func plainEnd(src []byte, i int) int {
	for ; i+8 <= len(src); i += 8 {
		if odd := oddBytes(binary.LittleEndian.Uint64(src[i:i+8])) & highBits; odd != 0 {
			return i + bits.TrailingZeros64(odd)/8
		}
	}
	for i < len(src) && isPlain(src[i]) {
		i++
	}
	return i
}

func escapeEnd(src []byte, i int) int {
	if i+1 == len(src) {
		return 0
	}
	switch src[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2
	case 'u':
		end := i + 6
		if end > len(src) {
			return 0
		}
		for _, c := range src[i+2 : end] {
			if !isHexDigit(c) {
				return 0
			}
		}
		return end
	}
	return 0
}

func isHexDigit(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func runeEnd(src []byte, i int) int {
	r, size := utf8.DecodeRune(src[i:])
	if r == utf8.RuneError && size == 1 { // not U+FFFD itself, which has three bytes
		return 0
	}
	return i + size
}
