package decision

import (
	"unicode/utf16"
	"unicode/utf8"
)

// appendUnescaped appends what s, the inside of a JSON string, says. As for
// encoding/json half a surrogate pair is U+FFFD, and so is each byte that is not UTF-8.
func appendUnescaped(dst, s []byte) []byte {
	for i := 0; i < len(s); {
		plain := plainEnd(s, i)
		dst = append(dst, s[i:plain]...)
		if i = plain; i == len(s) {
			break
		}
		if s[i] != '\\' {
			r, size := utf8.DecodeRune(s[i:])
			dst = utf8.AppendRune(dst, r)
			i += size
			continue
		}
		var r rune
		r, i = unescape(s, i+1)
		dst = utf8.AppendRune(dst, r)
	}
	return dst
}

// unescape returns the character of the escape whose backslash is before s[i], and the
// index after it.
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
func hexRune(s []byte, i int) (r rune) {
	if i+4 > len(s) {
		return utf8.RuneError
	}
	for _, c := range s[i : i+4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return utf8.RuneError
		}
		r = r<<4 | rune(c)
	}
	return r
}
