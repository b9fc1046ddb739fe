package decision

// base64Size counts the bytes that a JSON string stands for in base64, as it comes in
// pieces with its quotes. The zero value is in front of the string.
type base64Size struct {
	digits, padding int
	bad             bool // it is not base64

	escaped bool  // a backslash came
	hex     uint8 // so many digits of its \u are still to come
	char    rune  // of those that came
}

func (s *base64Size) add(p []byte) {
	for _, c := range p {
		switch {
		case s.hex > 0:
			s.addHex(c)
		case s.escaped:
			s.addEscaped(c)
		case c == '\\':
			s.escaped = true
		case c != '"':
			s.addChar(rune(c))
		}
	}
}

func (s *base64Size) addEscaped(c byte) {
	s.escaped = false
	switch c {
	case 'u':
		s.hex, s.char = 4, 0
	case '/':
		s.addChar('/')
	case 'n', 'r': // line breaks do not count
	default:
		s.bad = true
	}
}

func (s *base64Size) addHex(c byte) {
	digit := rune(c&0xf + c>>6*9) // the letters follow at 0x41 and 0x61
	if !('0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f') {
		s.bad = true
	}
	s.char = s.char<<4 | digit
	if s.hex--; s.hex == 0 {
		s.addChar(s.char)
	}
}

func (s *base64Size) addChar(c rune) {
	switch {
	case 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '+', c == '/':
		s.bad = s.bad || s.padding > 0
		s.digits++
	case c == '=':
		s.padding++
	case c == '\n' || c == '\r': // as above, from \u000a
	default:
		s.bad = true
	}
}

// ok reports whether the whole string is base64.
func (s *base64Size) ok() bool {
	return !s.bad && s.padding <= 2 && (s.digits+s.padding)%4 == 0
}

// bytes is how many bytes it stands for.
func (s *base64Size) bytes() int { return s.digits * 3 / 4 }
