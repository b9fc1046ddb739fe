package encoding

import (
	"errors"
	"math/bits"
	"strconv"
	"strings"
	"unicode"

	"github.com/docket-export/docket/sinks"
)

// appendID appends the id of item i of b.
func appendID(dst []byte, b *sinks.Batch, i int) []byte {
	dst = append(dst, b.Queue...)
	dst = append(dst, '-')
	return strconv.AppendUint(dst, b.Items[i].Seq, 10)
}

// appendString appends s, which is UTF-8, as a JSON string that stands for
// exactly the same text. A record is such text, and is read back byte for byte.
func appendString[S string | []byte](dst []byte, s S) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for i := 0; ; i++ {
		end := plainEnd(s, i)
		dst = append(dst, s[i:end]...)
		if end == len(s) {
			return append(dst, '"')
		}
		switch c := s[end]; c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\t':
			dst = append(dst, '\\', 't')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\n':
			dst = append(dst, '\\', 'n')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i = end
	}
}

// plainEnd returns the index, from i on, of the first byte that cannot stand in a
// JSON string as it is: a control character, a quote or a backslash.
func plainEnd[S string | []byte](s S, i int) int {
	for ; i+8 <= len(s); i += 8 {
		if found := specialBytes(word(s[i : i+8])); found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for ; i < len(s); i++ {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' {
			return i
		}
	}
	return i
}

// word is eight bytes as one number, the first of them lowest.
func word[S string | []byte](s S) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

const (
	eachByte = 0x0101010101010101
	highBits = 0x80 * eachByte
)

// specialBytes has the high bit of the first byte of w that plainEnd looks for;
// above that its bits mean nothing. Zero: there is none.
func specialBytes(w uint64) uint64 {
	quotes, backslashes := w^'"'*eachByte, w^'\\'*eachByte
	return ((w-' '*eachByte)&^w | (quotes-eachByte)&^quotes | (backslashes-eachByte)&^backslashes) & highBits
}

// appendMember appends ,"name":"value". The name needs no escapes.
func appendMember(dst []byte, name, value string) []byte {
	dst = append(dst, ',', '"')
	dst = append(dst, name...)
	dst = append(dst, '"', ':')
	return appendString(dst, value)
}

// plainText is the check of an option that goes into every request.
func plainText(s string) error {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return errors.New("must not hold control characters")
	}
	return nil
}
