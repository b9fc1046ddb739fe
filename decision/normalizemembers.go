package decision

import "bytes"

// members are the places of those members of a record that Normalize looks at.
type members struct {
	text []byte
	at   [memberCount]span
}

// span is text[begin:end]; empty for a member that is not there.
type span struct{ begin, end int }

// raw returns the JSON text of m, nil when it is not there.
func (f *members) raw(m member) []byte {
	s := f.at[m]
	if s.begin == s.end {
		return nil
	}
	return f.text[s.begin:s.end]
}

// is reports whether m is the string s.
func (f *members) is(m member, s string) bool { return string(textOf(f.raw(m))) == s }

// has reports whether m is there and not null.
func (f *members) has(m member) bool {
	raw := f.raw(m)
	return raw != nil && raw[0] != 'n'
}

// readAs notes the places in the object that text is, in one pass. It reports false for
// what is no object.
func (f *members) readAs(l level, text []byte) bool {
	i := skipSpace(text, 0)
	if i == len(text) || text[i] != '{' {
		return false
	}
	f.text = text
	f.object(i, l)
	return true
}

// object reads the object that begins at text[i], of which the members of l count, and
// returns the index after it. It calls itself as often as levels lie within each other.
func (f *members) object(i int, l level) int {
	text := f.text
	for i++; ; {
		i = skipSpace(text, i)
		if i == len(text) || text[i] != '"' && text[i] != ',' {
			return min(i+1, len(text)) // the closing bracket
		}
		if text[i] == ',' {
			i++
			continue
		}
		end := quoteEnd(text, i)
		m, inner := l.find(textOf(text[i:end]))
		i = skipSpace(text, end)
		if i < len(text) && text[i] == ':' {
			i = skipSpace(text, i+1)
		}
		begin := i
		if inner == nowhere {
			i = valueEnd(text, i)
		} else {
			i = f.value(i, inner)
		}
		if m != none {
			f.at[m] = span{begin, i}
		}
	}
}

// value reads a value whose members are those of l. Nothing of one that stood before it
// under the same name counts.
func (f *members) value(i int, l level) int {
	first, last := l.members()
	clear(f.at[first : last+1])
	if i < len(f.text) && f.text[i] == '{' {
		return f.object(i, l)
	}
	return valueEnd(f.text, i)
}

// textOf returns what a string says: a part of raw, unless it has escapes. It is nil
// when raw is no string.
func textOf(raw []byte) []byte {
	text := inQuotes(raw)
	if bytes.IndexByte(text, '\\') >= 0 {
		return appendUnescaped(nil, text)
	}
	return text
}

// inQuotes returns what stands between the quotes of a string, nil when raw is none.
func inQuotes(raw []byte) []byte {
	if len(raw) < 2 || raw[0] != '"' { // it may break off
		return nil
	}
	return raw[1 : len(raw)-1]
}

func skipSpace(text []byte, i int) int {
	for i < len(text) && isSpace(text[i]) {
		i++
	}
	return i
}

// quoteEnd returns the index after the string whose opening quote is text[i]. Unlike
// stringEnd it takes the string for valid.
func quoteEnd(text []byte, i int) int {
	for i++; ; i++ {
		n := bytes.IndexByte(text[i:], '"')
		if n < 0 {
			return len(text)
		}
		if i += n; !isEscaped(text, i) {
			return i + 1
		}
	}
}

// isEscaped reports whether an odd number of backslashes stands before text[i].
func isEscaped(text []byte, i int) bool {
	first := i
	for first > 0 && text[first-1] == '\\' {
		first--
	}
	return (i-first)%2 == 1
}

// valueEnd returns the index after the value that begins at text[i], and i where none
// does.
func valueEnd(text []byte, i int) int {
	for depth := 0; i < len(text); {
		switch text[i] {
		case '"':
			if i = quoteEnd(text, i); depth == 0 {
				return i
			}
		case '{', '[':
			depth++
			i++
		case '}', ']':
			if depth == 0 {
				return i
			}
			if i++; depth == 1 {
				return i
			}
			depth--
		default:
			if depth == 0 {
				return plainValueEnd(text, i)
			}
			i++ // numbers, literals, commas, colons and space
		}
	}
	return len(text)
}

// plainValueEnd returns the index after a number or literal.
func plainValueEnd(text []byte, i int) int {
	for i < len(text) && text[i] != ',' && text[i] != '}' && text[i] != ']' && !isSpace(text[i]) {
		i++
	}
	return i
}

// firstItem returns the first item of an array, nil when there is none.
func firstItem(array []byte) []byte {
	i := skipSpace(array, 1)
	return array[min(i, len(array)):valueEnd(array, i)]
}

// eachItem calls do for each item of array.
func eachItem(array []byte, do func(item []byte)) {
	for i := skipSpace(array, 1); i < len(array) && array[i] != ']'; i = skipSpace(array, i) {
		end := valueEnd(array, i)
		if end > i {
			do(array[i:end])
		}
		i = skipSpace(array, end)
		if i == len(array) || array[i] != ',' {
			return
		}
		i++
	}
}
