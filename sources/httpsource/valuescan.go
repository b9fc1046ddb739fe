package httpsource

import (
	"encoding/binary"
	"math/bits"
	"strings"
)

// valueScan finds the end of a JSON value that comes in pieces. It counts brackets, of
// whatever kind, outside of strings. The zero value is ready.
type valueScan struct {
	began    bool
	scalar   bool // a number, a word, or what is neither
	inString bool
	escaped  bool // within a string, the byte after a backslash comes
	depth    int  // of open brackets
}

// What ends a run of bytes that need no look: in a string, between strings, in a scalar.
var (
	endsString = tableOf("\"\\\n")
	endsSpan   = tableOf("\"{}[]\n")
	endsScalar = tableOf(",:]}[{\" \t\r\n")
)

func tableOf(bytes string) (t [256]bool) {
	for _, b := range []byte(bytes) {
		t[b] = true
	}
	return t
}

// scan returns how many bytes of p, which follows what was scanned before, belong to the
// value, and whether it ends there.
//
// It replaces newlines in p, because they would end a line. Between tokens a space says
// the same. In a string a newline is an error, which it stays as another control
// character: the value must not become good by being looked at.
func (s *valueScan) scan(p []byte) (n int, done bool) {
	if !s.began && len(p) > 0 {
		s.began = true
		s.scalar = strings.IndexByte(`"{[`, p[0]) < 0
	}
	if s.scalar {
		for n < len(p) && !endsScalar[p[n]] {
			n++
		}
		return n, n < len(p)
	}
	for n < len(p) {
		if s.inString {
			n += s.scanString(p[n:])
			done = !s.inString && s.depth == 0
		} else {
			n += s.scanSpan(p[n:])
			done = s.depth == 0 && !s.inString
		}
		if done {
			return n, true
		}
	}
	return n, false
}

// scanString goes on behind the end of a string, or to that of p.
func (s *valueScan) scanString(p []byte) (n int) {
	if s.escaped {
		s.escaped = false
		n = s.escape(p)
	}
	for {
		n += plain(p[n:])
		if n == len(p) {
			return n
		}
		n++
		switch p[n-1] {
		case '"':
			s.inString = false
			return n
		case '\n':
			p[n-1] = '\r'
		default:
			if n == len(p) {
				s.escaped = true
				return n
			}
			n += s.escape(p[n:])
		}
	}
}

// plain returns how many bytes of a string need no look. It takes eight at a time: most
// of a body is strings.
func plain(p []byte) (n int) {
	const each, high = 0x0101010101010101, 0x8080808080808080
	for ; len(p)-n >= 8; n += 8 {
		x := binary.LittleEndian.Uint64(p[n:])
		quote, backslash, newline := x^each*'"', x^each*'\\', x^each*'\n'
		// The lowest high bit that is set is that of the first byte that is zero in one.
		found := ((quote-each)&^quote | (backslash-each)&^backslash | (newline-each)&^newline) & high
		if found != 0 {
			return n + bits.TrailingZeros64(found)/8
		}
	}
	for n < len(p) && !endsString[p[n]] {
		n++
	}
	return n
}

// escape passes the byte that follows a backslash.
func (s *valueScan) escape(p []byte) int {
	if p[0] == '\n' {
		p[0] = '\r'
	}
	return 1
}

// scanSpan goes on behind what begins a string or ends the value, or to the end of p.
func (s *valueScan) scanSpan(p []byte) (n int) {
	for n < len(p) {
		b := p[n]
		n++
		if !endsSpan[b] {
			continue
		}
		switch b {
		case '"':
			s.inString = true
			return n
		case '{', '[':
			s.depth++
		case '\n':
			p[n-1] = ' '
		default:
			if s.depth--; s.depth == 0 {
				return n
			}
		}
	}
	return n
}
