package client

import (
	"fmt"
	"regexp"
	"strings"
)

// The package depends on nothing but the standard library, so it reads its small
// configuration file by itself, in a subset of YAML:
//
//	# comments, blank lines, and one --- before everything else
//	key: plain            no spaces and few signs: unix:///run/a.sock, 200ms, 8Mi
//	key: 'it''s quoted'
//	key: "quoted \"too\", with no other escape but \\"
//	key: [plain, "quoted"]
//	key:
//	- plain
//	- "quoted"
//	key: {}
//	key:
//	  key: plain          mappings are two deep
//
// Whatever it accepts means the same to every YAML parser; everything else is
// refused, with the line and what to write instead. So the file can be made and
// checked by any tool, and nothing is ever misread.

// yamlKind is what a value in a file is.
type yamlKind uint8

const (
	yamlScalar yamlKind = iota
	yamlList
	yamlMapping
)

func (k yamlKind) String() string {
	return [...]string{"text", "a list", "a mapping"}[k]
}

// yamlValue is one value in a file. The fields of other kinds than its own are
// empty.
type yamlValue struct {
	line    int // of its key, or of itself in a list
	kind    yamlKind
	text    string // without quotes
	plain   bool   // it stood without quotes
	items   []yamlValue
	members []yamlMember
}

type yamlMember struct {
	key   string
	value yamlValue
}

// yamlReader reads line by line. Every line that has something wrong with it is
// reported, and left out of the result along with what lies below it.
type yamlReader struct {
	lines []yamlLine // those that are left
	found problems
}

// yamlLine is a line with something else than a comment on it.
type yamlLine struct {
	number int
	indent int    // spaces before text
	text   string // begins and ends with something else than a space
}

// isItem reports whether the line is an item of a list.
func (l yamlLine) isItem() bool { return l.text == "-" || strings.HasPrefix(l.text, "- ") }

// readYAML reads a document. Where there are problems, members has what is left
// without them, so that the rest can be checked as well.
func readYAML(text string) (members []yamlMember, found problems) {
	var r yamlReader
	r.split(text)
	if len(r.found) > 0 {
		return nil, r.found // the lines may not be what they seem
	}
	if len(r.lines) > 0 && r.lines[0].indent == 0 {
		if rest, ok := strings.CutPrefix(r.lines[0].text, "---"); ok && isComment(rest) {
			r.lines = r.lines[1:]
		}
	}
	members = r.mapping(0, "")
	if len(members) == 0 && len(r.found) == 0 {
		r.found.addf("", "the document is empty")
	}
	return members, r.found
}

// split makes the lines. It refuses what a person cannot see, and what is the end
// of a line to some parsers and not to others.
func (r *yamlReader) split(text string) {
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSuffix(line, "\r")
		if at := strings.IndexFunc(line, unprintable); at >= 0 {
			r.addf(i+1, "", "%s", unprintableHint([]rune(line[at:])[0]))
			continue
		}
		trimmed := strings.Trim(line, " ")
		if trimmed == "" || trimmed[0] == '#' {
			continue
		}
		indent := len(line) - len(strings.TrimLeft(line, " "))
		r.lines = append(r.lines, yamlLine{number: i + 1, indent: indent, text: trimmed})
	}
}

// unprintable reports whether r may not stand in a file. Bytes that are no UTF-8
// arrive here as utf8.RuneError.
func unprintable(r rune) bool {
	switch {
	case ' ' <= r && r <= '~':
		return false
	case r < 0xa0, r == 0x2028, r == 0x2029, r == 0xfeff, r == 0xfffd, r&0xfffe == 0xfffe:
		return true
	}
	return false
}

func unprintableHint(r rune) string {
	switch r {
	case '\t':
		return "must not have a tab in it: use spaces"
	case 0xfffd:
		return "must be UTF-8 text"
	case 0xfeff:
		return "must not have a byte order mark in it: save the file as UTF-8 without one"
	}
	return fmt.Sprintf("must not have the character %U in it, which cannot be seen: remove it", r)
}

func (r *yamlReader) addf(line int, key, format string, args ...any) {
	r.found = append(r.found, problem{line: line, key: key, text: fmt.Sprintf(format, args...)})
}

// next returns the next line, and whether there is one, without taking it.
func (r *yamlReader) next() (yamlLine, bool) {
	if len(r.lines) == 0 {
		return yamlLine{}, false
	}
	return r.lines[0], true
}

// take moves on. It follows next.
func (r *yamlReader) take() { r.lines = r.lines[1:] }

// skipBelow leaves out the lines that are indented by more than indent.
func (r *yamlReader) skipBelow(indent int) {
	for l, ok := r.next(); ok && l.indent > indent; l, ok = r.next() {
		r.take()
	}
}

// mapping reads the mapping at parent, whose keys are indented by indent.
func (r *yamlReader) mapping(indent int, parent string) []yamlMember {
	var members []yamlMember
	first := make(map[string]int) // line of each key
	for l, ok := r.next(); ok && l.indent >= indent; l, ok = r.next() {
		r.take()
		key, rest, text := splitKey(l.text)
		at := joinKey(parent, key)
		switch {
		case l.indent > indent:
			text = misplaced(indent, "keys")
		case text == "" && first[key] > 0:
			text = fmt.Sprintf("duplicate key, first on line %d", first[key])
		}
		if text != "" {
			r.addf(l.number, at, "%s", text)
			r.skipBelow(indent)
			continue
		}
		first[key] = l.number
		if value, ok := r.value(l, rest, at, parent == ""); ok {
			members = append(members, yamlMember{key, value})
		}
	}
	return members
}

func joinKey(parent, key string) string {
	if parent == "" || key == "" {
		return parent + key
	}
	return parent + "." + key
}

// A key of more than 1024 bytes is none to YAML; no known one has more than 16.
var plainKey = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]{0,63}$`)

// splitKey splits "key: value". text says what is wrong.
func splitKey(line string) (key, rest, text string) {
	key, rest, ok := strings.Cut(line, ":")
	switch {
	case line == "..." || strings.HasPrefix(line, "---"):
		return "", "", "must be one document: remove this line and what follows it"
	case line[0] == '%':
		return "", "", "directives (%) are not supported: remove the line"
	case line[0] == '-':
		return "", "", "must be a key and a value, as \"key: value\": a list stands below its key"
	case line[0] == '{':
		return "", "", "mappings in braces are not supported: write one key a line"
	case !ok || !plainKey.MatchString(key):
		return "", "", "must be a key and a value, as \"key: value\", with a key of letters and no quotes"
	case rest != "" && rest[0] != ' ':
		return key, "", "must have a space after the colon"
	}
	return key, rest, ""
}

// value reads the value of the key at l. rest is what follows the colon. outer
// says that the key is one of the document, and may have a value below it.
func (r *yamlReader) value(l yamlLine, rest, at string, outer bool) (yamlValue, bool) {
	if isComment(rest) {
		return r.valueBelow(l, at, outer)
	}
	v, text := parseValue(strings.TrimLeft(rest, " "))
	if text != "" {
		r.addf(l.number, at, "%s", text)
		r.skipBelow(l.indent)
		return v, false
	}
	v.line = l.number
	for i := range v.items {
		v.items[i].line = l.number
	}
	return v, true
}

// valueBelow reads the list or mapping below the key at l.
func (r *yamlReader) valueBelow(l yamlLine, at string, outer bool) (yamlValue, bool) {
	below, ok := r.next()
	switch {
	case ok && outer && below.isItem() && below.indent >= l.indent:
		return yamlValue{line: l.number, kind: yamlList, items: r.list(below.indent, at)}, true
	case !ok || below.indent <= l.indent:
		r.addf(l.number, at, `must have a value: write one, or "" for an empty one, or remove the key`)
		return yamlValue{}, false
	case !outer:
		r.addf(l.number, at, "must have its value on the same line: mappings are at most two deep, and a list in one is written as [a, b]")
		r.skipBelow(l.indent)
		return yamlValue{}, false
	}
	return yamlValue{line: l.number, kind: yamlMapping, members: r.mapping(below.indent, at)}, true
}

// list reads the items of the list at the key at, which are indented by indent.
func (r *yamlReader) list(indent int, at string) []yamlValue {
	var items []yamlValue
	for l, ok := r.next(); ok && (l.indent > indent || l.indent == indent && l.isItem()); l, ok = r.next() {
		r.take()
		if l.indent > indent {
			r.addf(l.number, at, "%s", misplaced(indent, "items"))
			r.skipBelow(indent)
			continue
		}
		v, text := parseItem(strings.TrimPrefix(l.text, "-"))
		if text != "" {
			r.addf(l.number, fmt.Sprintf("%s[%d]", at, len(items)), "%s", text)
			r.skipBelow(indent)
		}
		v.line = l.number
		items = append(items, v) // also a bad one, for the numbers of those behind it
	}
	return items
}

// parseItem reads what follows the dash of an item.
func parseItem(rest string) (v yamlValue, text string) {
	if isComment(rest) {
		return v, `must have a value: write one, or "" for an empty one, or remove the item`
	}
	v, text = parseValue(strings.TrimLeft(rest, " "))
	if text == "" && v.kind != yamlScalar {
		text = "must be text, not " + v.kind.String()
	}
	return v, text
}

// misplaced says what is wrong with a line that is indented by more than the
// keys or items around it.
func misplaced(indent int, around string) string {
	if indent == 0 {
		return "must not be indented; if it belongs to the value before, put that on one line"
	}
	return fmt.Sprintf("must be indented by %d spaces, as the %s around it; if it belongs to the value before, put that on one line", indent, around)
}
