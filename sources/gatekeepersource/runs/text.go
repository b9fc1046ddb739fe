package runs

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// The functions below step over a part of a JSON text. They return the index after it, -1
// if it is none.

func skipSpace(text []byte, i int) int {
	for i < len(text) && text[i] <= ' ' && (text[i] == ' ' || text[i] == '\t' || text[i] == '\r' || text[i] == '\n') {
		i++
	}
	return i
}

// stringEnd steps over the rest of a string, whose first character is text[i], and its
// quote. Most have nothing in them that needs a second look: it makes no call for these.
func stringEnd(text []byte, i int) int {
	for ; i+8 <= len(text); i += 8 {
		if found := special(binary.LittleEndian.Uint64(text[i : i+8])); found != 0 {
			i += bits.TrailingZeros64(found) / 8
			if text[i] == '"' {
				return i + 1
			}
			break
		}
	}
	return specialEnd(text, i)
}

// specialEnd is stringEnd for any string.
func specialEnd(text []byte, i int) int {
	for i < len(text) {
		switch c := text[i]; {
		case c == '"':
			return i + 1
		case c < ' ':
			return -1
		case c == '\\':
			if i = escapeEnd(text, i+1); i < 0 {
				return -1
			}
		case c < utf8.RuneSelf:
			i++
		default:
			r, size := utf8.DecodeRune(text[i:])
			if r == utf8.RuneError && size == 1 {
				return -1
			}
			i += size
		}
		i = skipPlain(text, i)
	}
	return -1
}

// skipPlain steps over what is not special, as long as there are eight bytes.
func skipPlain(text []byte, i int) int {
	for ; i+8 <= len(text); i += 8 {
		if found := special(binary.LittleEndian.Uint64(text[i : i+8])); found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	return i
}

// special looks at eight bytes of a string at a time, for those that are not themselves:
// quotes, backslashes, control characters, and what is not ASCII. The highest bit of the
// lowest of them is set, and none below it. To flip the bit of 2 puts the quote right
// behind the control characters, in place of the space: one comparison finds both.
func special(w uint64) uint64 {
	const each, highest = 0x0101010101010101, 0x8080808080808080
	return (((w ^ each*2) - each*(' '+1)) | ((w ^ each*'\\') - each) | w) & highest
}

// escapeEnd steps over an escape whose backslash is before text[i].
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

// wordEnd steps over a number or a literal.
func wordEnd(text []byte, i int) int {
	switch text[i] {
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

// digitsEnd steps over one digit or more.
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
