package rawjson

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// Text returns what a string says, nil for any other value. Of a string that breaks off it is the
// beginning. Without escapes it is a part of v; otherwise it is the result of AppendText.
func (v Value) Text() []byte {
	text := v.inside()
	if bytes.IndexByte(text, '\\') < 0 {
		return text
	}
	return v.AppendText(make([]byte, 0, len(text))) // escapes are longer than what they say
}

// AppendText appends what a string says, as UTF-8: half a surrogate pair becomes
// U+FFFD, and so does each byte that is not UTF-8, as for encoding/json.
func (v Value) AppendText(dst []byte) []byte {
	for text := v.inside(); len(text) > 0; {
		plain := bytes.IndexByte(text, '\\')
		if plain < 0 {
			return appendUTF8(dst, text)
		}
		dst = appendUTF8(dst, text[:plain])
		r, end := unescape(text, plain+1)
		dst = utf8.AppendRune(dst, r)
		text = text[end:]
	}
	return dst
}

// inside returns what stands between the quotes of a string, nil where v is none. The
// last quote may be missing.
func (v Value) inside() []byte {
	last := len(v) - 1
	switch {
	case last < 0 || v[0] != '"':
		return nil
	case last > 0 && v[last] == '"' && !isEscaped(v, last):
		return v[1:last]
	}
	return v[1:]
}

// plainEnd returns the index of the first byte from text[i] on that is not plain.
func plainEnd(text []byte, i int) int {
	for ; i+8 <= len(text); i += 8 {
		if odd := oddBytes(binary.LittleEndian.Uint64(text[i:i+8])) & highBits; odd != 0 {
			return i + bits.TrailingZeros64(odd)/8
		}
	}
	for i < len(text) && isPlain(text[i]) {
		i++
	}
	return i
}

// appendUTF8 appends text with U+FFFD for each byte that is not UTF-8.
func appendUTF8(dst, text []byte) []byte {
	if utf8.Valid(text) {
		return append(dst, text...)
	}
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		dst = utf8.AppendRune(dst, r)
		text = text[size:]
	}
	return dst
}

// unescape returns the character of the escape whose backslash is before s[i], and the
// index after the escape.
func unescape(s []byte, i int) (r rune, end int) {
	if i == len(s) {
		return utf8.RuneError, i
	}
	switch c := s[i]; c {
	case 'b':
		return '\b', i + 1
	case 'f':
		return '\f', i + 1
	case 'n':
		return '\n', i + 1
	case 'r':
		return '\r', i + 1
	case 't':
		return '\t', i + 1
	case 'u':
		return unescapeHex(s, i+1)
	default: // the quote, the backslash, the slash
		return rune(c), i + 1
	}
}

// unescapeHex is unescape for what follows \u.
func unescapeHex(s []byte, i int) (r rune, end int) {
	r = hexRune(s, i)
	i = min(i+4, len(s))
	if !utf16.IsSurrogate(r) {
		return r, i
	}
	if i+6 <= len(s) && s[i] == '\\' && s[i+1] == 'u' {
		if pair := utf16.DecodeRune(r, hexRune(s, i+2)); pair != utf8.RuneError {
			return pair, i + 6
		}
	}
	return utf8.RuneError, i
}

// hexRune reads four hexadecimal digits.
func hexRune(s []byte, i int) rune {
	if !hasFourHex(s, i) {
		return utf8.RuneError
	}
	var r rune
	for _, c := range s[i : i+4] {
		r = r<<4 | rune(c&0xf+c>>6*9) // the letters follow at 0x41 and 0x61
	}
	return r
}
