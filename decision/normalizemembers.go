package decision

import "github.com/docket-export/docket/decision/rawjson"

// members are the places of those members of a record that Normalize looks at.
type members struct {
	text []byte
	at   [maxMembers]span
}

// span is text[begin:end]; empty for a member that is not there.
type span struct{ begin, end int }

// raw returns the value of m, nil where there is none.
func (f *members) raw(m member) rawjson.Value {
	s := f.at[m]
	if s.begin == s.end {
		return nil
	}
	return f.text[s.begin:s.end]
}

// is reports whether m is the string s.
func (f *members) is(m member, s string) bool { return string(f.raw(m).Text()) == s }

// has reports whether m is there and not null.
func (f *members) has(m member) bool {
	kind := f.raw(m).Kind()
	return kind != rawjson.Invalid && kind != rawjson.Null
}

// readAs notes the places in the object that text is, in one pass. It reports false for
// what is no object.
func (f *members) readAs(l level, text []byte) bool {
	i := rawjson.SkipSpace(text, 0)
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
		i = rawjson.SkipSpace(text, i)
		if i == len(text) || text[i] != '"' && text[i] != ',' {
			return min(i+1, len(text)) // the closing bracket
		}
		if text[i] == ',' {
			i++
			continue
		}
		name, begin := rawjson.Name(text, i)
		m, inner := l.find(name)
		if inner == nowhere {
			i = rawjson.ValueEnd(text, begin)
		} else {
			i = f.value(begin, inner)
		}
		if m != none {
			f.at[m] = span{begin, i}
		}
	}
}

// value reads a value whose members are those of l. Nothing of one that stood before it
// under the same name counts.
func (f *members) value(i int, l level) int {
	below := known.below[l]
	clear(f.at[below.first : below.last+1])
	if i < len(f.text) && f.text[i] == '{' {
		return f.object(i, l)
	}
	return rawjson.ValueEnd(f.text, i)
}
