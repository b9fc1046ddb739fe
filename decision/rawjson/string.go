package rawjson

import "unicode/utf8"

// AppendCompact appends value without the white space around its tokens.
func AppendCompact(dst, value []byte) []byte {
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

// AppendString appends s as a JSON string, as encoding/json writes it without escaping HTML. U+2028
// and U+2029 are escaped, and every byte that is not UTF-8 becomes the escape of U+FFFD.
func AppendString(b []byte, s string) []byte {
	b = append(b, '"')
	kept := 0 // s[kept:i] is still to be appended
	for i := 0; i < len(s); {
		if isPlain(s[i]) && s[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r < utf8.RuneSelf || r == utf8.RuneError && size == 1 || r == '\u2028' || r == '\u2029' {
			b = appendEscape(append(b, s[kept:i]...), r)
			kept = i + size
		}
		i += size
	}
	return append(append(b, s[kept:]...), '"')
}

// appendEscape appends the escape of a character that must not stand for itself.
func appendEscape(b []byte, r rune) []byte {
	switch r {
	case '"', '\\':
		return append(b, '\\', byte(r))
	case '\b':
		return append(b, `\b`...)
	case '\f':
		return append(b, `\f`...)
	case '\n':
		return append(b, `\n`...)
	case '\r':
		return append(b, `\r`...)
	case '\t':
		return append(b, `\t`...)
	}
	const digits = "0123456789abcdef"
	return append(b, '\\', 'u', digits[r>>12], digits[r>>8&0xf], digits[r>>4&0xf], digits[r&0xf])
}
