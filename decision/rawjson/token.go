package rawjson

import (
	"encoding/binary"
	"math/bits"
)

// at returns the byte at i, and 0, which is no JSON, beyond the end.
func at(line []byte, i int) byte {
	if uint(i) < uint(len(line)) {
		return line[i]
	}
	return 0
}

// token returns where the white space from i on ends, and the byte there.
func token(line []byte, i int) (int, byte) {
	if uint(i) < uint(len(line)) && line[i] > ' ' {
		return i, line[i]
	}
	i = SkipSpace(line, i)
	return i, at(line, i)
}

// plainEnd returns the index of the first byte of a string from text[i] on that does not
// stand for itself: the quote, the backslash or a control character.
func plainEnd(text []byte, i int) int {
	for ; i+8 <= len(text); i += 8 {
		if s := stops(binary.LittleEndian.Uint64(text[i:])); s != 0 {
			return i + bits.TrailingZeros64(s)/8
		}
	}
	for i < len(text) && isPlain(text[i]) {
		i++
	}
	return i
}

func isPlain(c byte) bool { return c >= ' ' && c != '"' && c != '\\' }

// stops sets the high bit of each of the eight bytes of w that is not plain. Nothing is
// carried from one byte into the next: what is added has no high bits. As c^2 swaps 0x22
// and 0x20, it is less than 0x21 for the quote and control characters alone.
func stops(w uint64) uint64 {
	c := w &^ highBits
	return ^(((c^2*each)+(0x80-0x21)*each)&((c^'\\'*each)+0x7f*each) | w) & highBits
}

const (
	each     = 0x0101010101010101 // times c: a word of c
	highBits = 0x80 * each
)

// escapes are the bytes that may follow a backslash, but for the u.
var escapes = [256]bool{'"': true, '\\': true, '/': true, 'b': true, 'f': true, 'n': true, 'r': true, 't': true}

var hex = [256]uint8{
	'0': 1, '1': 1, '2': 1, '3': 1, '4': 1, '5': 1, '6': 1, '7': 1, '8': 1, '9': 1,
	'a': 1, 'b': 1, 'c': 1, 'd': 1, 'e': 1, 'f': 1,
	'A': 1, 'B': 1, 'C': 1, 'D': 1, 'E': 1, 'F': 1,
}

// hasFourHex reports whether there are four hexadecimal digits at i. Those of a lone
// surrogate are as good as others.
func hasFourHex(line []byte, i int) bool {
	if len(line)-i < 4 {
		return false
	}
	d := line[i : i+4 : i+4]
	return hex[d[0]]&hex[d[1]]&hex[d[2]]&hex[d[3]] == 1
}

// literalEnd returns the index behind the literal at i, or -1 if there is none.
func literalEnd(line []byte, i int) int {
	rest := line[i:]
	switch {
	case len(rest) >= 4 && (string(rest[:4]) == "true" || string(rest[:4]) == "null"):
		return i + 4
	case len(rest) >= 5 && string(rest[:5]) == "false":
		return i + 5
	}
	return -1
}

// numberEnd returns the index behind the number whose first byte, a minus or a digit, is
// at i, or -1 if it is no number.
func numberEnd(line []byte, i int) int {
	c := line[i]
	if c == '-' {
		i++
		c = at(line, i)
	}
	i++
	if c != '0' {
		if !isDigit(c) {
			return -1
		}
		i = digitsEnd(line, i)
	}
	c = at(line, i)
	if c == '.' {
		begin := i + 1
		if i = digitsEnd(line, begin); i == begin {
			return -1
		}
		c = at(line, i)
	}
	if c|0x20 == 'e' {
		i++
		if c = at(line, i); c == '+' || c == '-' {
			i++
		}
		begin := i
		if i = digitsEnd(line, begin); i == begin {
			return -1
		}
	}
	return i
}

func digitsEnd(line []byte, i int) int {
	for uint(i) < uint(len(line)) && isDigit(line[i]) {
		i++
	}
	return i
}

func isDigit(c byte) bool { return c-'0' <= 9 }
