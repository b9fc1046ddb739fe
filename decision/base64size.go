package decision

import "github.com/docket-export/docket/decision/rawjson"

// base64Size counts the bytes that a JSON string stands for in base64, as it comes in
// pieces, with its quotes. The zero value is in front of the string.
type base64Size struct {
	digits, padding int
	bad             bool   // it is not base64
	escape          []byte // that is not whole yet, behind a quote
}

func (s *base64Size) add(p []byte) {
	for _, c := range p {
		switch {
		case c != '\\' && len(s.escape) == 0:
			if c != '"' {
				s.count(c)
			}
			continue
		case len(s.escape) == 0:
			s.escape = append(s.escape, '"')
		}
		s.escape = append(s.escape, c)
		if n := len(s.escape); n == len(`"\n`) && c != 'u' || n == len(`"\u002b`) {
			whole := rawjson.Value(append(s.escape, '"'))
			s.bad = s.bad || rawjson.KindOf(whole) == rawjson.Invalid
			for _, c := range whole.Text() {
				s.count(c)
			}
			s.escape = s.escape[:0]
		}
	}
}

func (s *base64Size) count(c byte) {
	switch {
	case 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '+', c == '/':
		s.bad = s.bad || s.padding > 0
		s.digits++
	case c == '=':
		s.padding++
	case c != '\n' && c != '\r': // line breaks do not count
		s.bad = true
	}
}

// ok reports whether the whole string is base64.
func (s *base64Size) ok() bool {
	return !s.bad && s.padding <= 2 && (s.digits+s.padding)%4 == 0
}

// bytes is how many bytes it stands for.
func (s *base64Size) bytes() int { return s.digits * 3 / 4 }
