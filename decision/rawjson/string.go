package rawjson

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"unicode/utf8"
)

// AppendCompact appends value without the white space around its tokens.
func AppendCompact(dst, value []byte) []byte {
	if !hasSpace(value) {
		return append(dst, value...)
	}
	kept := 0 // value[kept:i] is still to be appended
	for i := 0; i < len(value); {
		switch {
		case value[i] == '"':
			i = StringEnd(value, i)
		case isSpace(value[i]):
			dst = append(dst, value[kept:i]...)
			i++
			kept = i
		default:
			i++
		}
	}
	return append(dst, value[kept:]...)
}

// hasSpace reports whether value has white space, be it within a string.
func hasSpace(value []byte) bool {
	for ; len(value) >= 8; value = value[8:] {
		if w := binary.LittleEndian.Uint64(value); (w-(' '+1)*everyByte)&^w&highBits != 0 {
			return true
		}
	}
	for _, c := range value {
		if c <= ' ' {
			return true
		}
	}
	return false
}

// AppendString appends s as a JSON string, as encoding/json writes it without escaping HTML. U+2028
// and U+2029 are escaped, and every byte that is not UTF-8 becomes the escape of U+FFFD.
//
// It copies and checks eight bytes at a time. The last eight bytes of a string may overlap bytes
// before them, also in a short string. At a byte that needs an escape, appendEscaped takes over.
func AppendString(b []byte, s string) []byte {
	begin := len(b)
	if begin+len(s)+2 > cap(b) {
		return AppendString(grow(b, len(s)+2), s)
	}
	b = b[:begin+len(s)+2]
	dst := b[begin+1 : len(b)-1]
	b[begin], b[len(b)-1] = '"', '"'
	switch {
	case len(s) >= 8:
		last := len(s) - 8
		for i := 0; i < last; i += 8 {
			w := word(s[i:])
			binary.LittleEndian.PutUint64(dst[i:i+8:i+8], w)
			if oddBytes(w)&highBits != 0 {
				return appendEscaped(b[:begin+1+i], s[i:])
			}
		}
		w := word(s[last:])
		binary.LittleEndian.PutUint64(dst[last:last+8:last+8], w)
		if oddBytes(w)&highBits != 0 {
			return appendEscaped(b[:begin+1+last], s[last:])
		}
	case len(s) >= 4:
		last := len(s) - 4
		low, high := halfWord(s), halfWord(s[last:])
		binary.LittleEndian.PutUint32(dst[0:4:4], low)
		binary.LittleEndian.PutUint32(dst[last:last+4:last+4], high)
		if oddBytes(uint64(low)|uint64(high)<<32)&highBits != 0 {
			return appendEscaped(b[:begin+1], s)
		}
	case len(s) > 0:
		first, middle, last := s[0], s[len(s)/2], s[len(s)-1]
		dst[0], dst[len(s)/2], dst[len(s)-1] = first, middle, last
		if oddBytes(uint64(first)|uint64(middle)<<8|uint64(last)<<16|' '*(everyByte&^0xffffff))&highBits != 0 {
			return appendEscaped(b[:begin+1], s)
		}
	}
	return b
}

// grow is slices.Grow, kept out of line: inlined, it would cost its callers
// registers on the path on which there is room.
//
//go:noinline
func grow(b []byte, n int) []byte { return slices.Grow(b, n) }

// appendEscaped appends s, with what must be escaped escaped, and the closing quote.
func appendEscaped(b []byte, s string) []byte {
	for len(s) >= 8 {
		// Take eight bytes, then keep those before the first odd one.
		b = slices.Grow(b, 8)
		n := len(b)
		w := word(s)
		binary.LittleEndian.PutUint64(b[n:n+8:n+8], w)
		plain := bits.TrailingZeros64(oddBytes(w)&highBits) / 8
		b = b[:n+plain]
		s = s[plain:]
		if plain < 8 {
			b, s = appendOdd(b, s)
		}
	}
	for s != "" {
		if isPlain(s[0]) {
			b = append(b, s[0])
			s = s[1:]
		} else {
			b, s = appendOdd(b, s)
		}
	}
	return append(b, '"')
}

// appendOdd appends the first character of s, whose first byte is not plain, and
// returns what follows it.
func appendOdd(b []byte, s string) (line []byte, rest string) {
	const hex = "0123456789abcdef"
	c := s[0]
	if c >= utf8.RuneSelf {
		return appendRune(b, s)
	}
	switch c {
	case '"', '\\':
		b = append(b, '\\', c)
	case '\b':
		b = append(b, `\b`...)
	case '\f':
		b = append(b, `\f`...)
	case '\n':
		b = append(b, `\n`...)
	case '\r':
		b = append(b, `\r`...)
	case '\t':
		b = append(b, `\t`...)
	default:
		b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
	}
	return b, s[1:]
}

// appendRune is appendOdd of a character beyond ASCII.
func appendRune(b []byte, s string) (line []byte, rest string) {
	r, size := utf8.DecodeRuneInString(s)
	switch {
	case r == utf8.RuneError && size == 1: // not U+FFFD itself, which has three bytes
		b = append(b, `\ufffd`...)
	case r == '\u2028':
		b = append(b, `\u2028`...)
	case r == '\u2029':
		b = append(b, `\u2029`...)
	default:
		b = append(b, s[:size]...)
	}
	return b, s[size:]
}

// isPlain reports whether c may stand for itself in a JSON string and needs no
// further look: ASCII but for control characters, the quote and the backslash.
func isPlain(c byte) bool {
	return ' ' <= c && c < utf8.RuneSelf && c != '"' && c != '\\'
}

const (
	everyByte = 0x0101010101010101 // times c: a word of c
	highBits  = 0x80 * everyByte
)

// oddBytes sets the high bit of the first byte of w that is not plain, counted
// from the lowest, and of no byte before it; with none, it sets no high bit. What
// it sets elsewhere means nothing.
//
// Only an odd byte borrows from the next, so up to the first of them each byte is
// on its own. There c^2 - 0x21 is negative for control characters and, as c^2
// swaps 0x22 and 0x20, for the quote; c^'\\' - 1 is negative for the backslash;
// and beyond ASCII at least one of the two keeps its high bit, the first for 0xdc
// and the second for any other.
func oddBytes(w uint64) uint64 {
	return ((w ^ 2*everyByte) - 0x21*everyByte) | ((w ^ '\\'*everyByte) - everyByte)
}

// word returns the first eight bytes of s, the first one lowest. Compilers make
// one load of it.
func word(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// halfWord is word of four bytes.
func halfWord(s string) uint32 {
	_ = s[3]
	return uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
}
