package client

import (
	"fmt"
	"strings"
	"testing"
)

// showYAML writes members as one line, texts quoted.
func showYAML(members []yamlMember) string {
	var b strings.Builder
	for _, m := range members {
		fmt.Fprintf(&b, "%s:%s ", m.key, showValue(m.value))
	}
	return strings.TrimSpace(b.String())
}

func showValue(v yamlValue) string {
	switch v.kind {
	case yamlMapping:
		return "{" + showYAML(v.members) + "}"
	case yamlList:
		var items []string
		for _, item := range v.items {
			items = append(items, showValue(item))
		}
		return "[" + strings.Join(items, " ") + "]"
	}
	return fmt.Sprintf("%q", v.text)
}

func TestReadYAML(t *testing.T) {
	long := strings.Repeat("abcdefg/", 500)
	for name, test := range map[string]struct{ text, want string }{
		"plain":                {"a: unix:///run/x.sock\nb: 8Mi", `a:"unix:///run/x.sock" b:"8Mi"`},
		"IPv6":                 {"a: tcp://[::1]:80", `a:"tcp://[::1]:80"`},
		"single quotes":        {`a: 'it''s "so" \n # no comment'`, `a:"it's \"so\" \\n # no comment"`},
		"double quotes":        {`a: "it's \"so\" c:\\d # no comment"`, `a:"it's \"so\" c:\\d # no comment"`},
		"empty texts":          {"a: ''\nb: \"\"", `a:"" b:""`},
		"beyond ASCII":         {"a: 'größe 😀' # größe", `a:"größe 😀"`},
		"comments":             {"# one\n  # two\na: b # three\n\n   \nc: d   #four\n#five", `a:"b" c:"d"`},
		"start":                {"# x\n---  # y\na: b", `a:"b"`},
		"carriage returns":     {"a: b\r\nc:\r\n- d\r\n\r\n", `a:"b" c:["d"]`},
		"list in brackets":     {`a: [b,c ,  "d, e", 'f']  # g`, `a:["b" "c" "d, e" "f"]`},
		"empty list":           {"a: [ ]", `a:[]`},
		"list":                 {"a: # b\n- c\n# d\n-   'e' # f\ng: h", `a:["c" "e"] g:"h"`},
		"list, indented":       {"a:\n  - c\n  - d\ng: h", `a:["c" "d"] g:"h"`},
		"mapping":              {"a:\n  b: c\n\n  d: [e]\nf: g", `a:{b:"c" d:["e"]} f:"g"`},
		"mapping, wide":        {"a:\n      b: c\n      d: {}", `a:{b:"c" d:{}}`},
		"empty mapping":        {"a: { }", `a:{}`},
		"long texts":           {"a: " + long + "\nb: ['" + long + "', \"" + long + "\"]\nc:\n- " + long + "\n- '" + long + "'", fmt.Sprintf("a:%q b:[%[1]q %[1]q] c:[%[1]q %[1]q]", long)},
		"without last newline": {"a: b", `a:"b"`},
	} {
		t.Run(name, func(t *testing.T) {
			members, found := readYAML(test.text)
			if len(found) > 0 {
				t.Fatalf("got problems %v, want none", found)
			}
			if got := showYAML(members); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestReadYAMLRefuses(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"nothing":               {"", "the document is empty"},
		"comments only":         {"---\n# a\n", "the document is empty"},
		"tab as indentation":    {"a:\n\tb: c", "2: must not have a tab in it: use spaces"},
		"tab before a comment":  {"a: b\t# c", "1: must not have a tab in it: use spaces"},
		"byte order mark":       {"\ufeffa: b", "1: must not have a byte order mark"},
		"not UTF-8":             {"a: b\n# \xff\n", "2: must be UTF-8 text"},
		"next line character":   {"a: b # \u0085c: d", "1: must not have the character U+0085"},
		"line separator":        {"a: b # \u2028c: d", "1: must not have the character U+2028"},
		"lone return":           {"a: b # \rc: d", "1: must not have the character U+000D"},
		"noncharacter":          {"a: '\U0001fffe'", "1: must not have the character U+1FFFE"},
		"second document":       {"a: b\n---\nc: d", "2: must be one document"},
		"end of document":       {"a: b\n...\n", "2: must be one document"},
		"start with a value":    {"--- a\nb: c", "1: must be one document"},
		"directive":             {"%YAML 1.2\n---\na: b", "1: directives"},
		"anchor":                {"a: &x b", "1: a: anchors (&) are not supported"},
		"alias":                 {"a: *x", "1: a: aliases (*) are not supported"},
		"tag":                   {"a: !!str b", "1: a: tags (!) are not supported"},
		"literal":               {"a: |\n  b\n  c\nd: e", "1: a: text over several lines"},
		"folded":                {"a: >-\n  b", "1: a: text over several lines"},
		"tilde":                 {"a: ~", "1: a: null (~)"},
		"reserved sign":         {"a: @b", "1: a: must be put in quotes"},
		"missing value":         {"a:\nb: c", "1: a: must have a value"},
		"missing last value":    {"b: c\na:", "2: a: must have a value"},
		"missing inner value":   {"a:\n  b:\n  c: d", "2: a.b: must have a value"},
		"missing item":          {"a:\n- b\n- # c", "3: a[1]: must have a value"},
		"plain over two lines":  {"a: b\n  c", "2: must not be indented; if it belongs to the value before"},
		"quotes over two lines": {"a: 'b\n  c'\nd: e", "1: a: must end with the quote"},
		"open double quote":     {`a: "b\"`, "1: a: must end with the quote"},
		"open escape":           {`a: "b\`, "1: a: must end with the quote"},
		"escape":                {`a: "b\n"`, `1: a: must have no escapes but \" and \\`},
		"behind quotes":         {`a: "b" c`, "1: a: must be put in quotes as a whole"},
		"comment at quotes":     {`a: "b"#c`, "1: a: must be put in quotes as a whole"},
		"comment at text":       {`a: b#c`, "1: a: must be put in quotes as a whole"},
		"spaces in text":        {"a: b c", "1: a: must be put in quotes as a whole"},
		"colon at the end":      {"a: b:", "1: a: must be put in quotes"},
		"mapping in text":       {"a: b: c", "1: a: must be put in quotes"},
		"no space":              {"a:b", "1: a: must have a space after the colon"},
		"space before colon":    {"a : b", "1: must be a key and a value"},
		"quoted key":            {`"a": b`, "1: must be a key and a value"},
		"endless key":           {strings.Repeat("a", 1025) + ": b", "1: must be a key and a value"},
		"no colon":              {"a", "1: must be a key and a value"},
		"explicit key":          {"? a\n: b", "1: must be a key and a value"},
		"list as document":      {"- a", `1: must be a key and a value, as "key: value": a list`},
		"document in braces":    {"{a: b}", "1: mappings in braces"},
		"mapping in braces":     {"a: {b: c}", "1: a: mappings in braces"},
		"open list":             {"a: [b,\n  c]", "1: a: must be a list of texts"},
		"open list, no comma":   {"a: [b\n  ]", "1: a: must be a list of texts"},
		"comma at the end":      {"a: [b,]", "1: a: must be a list of texts"},
		"comment in brackets":   {"a: [b, # c", "1: a: must be a list of texts"},
		"mapping in brackets":   {"a: [b: c]", "1: a: must be a list of texts"},
		"colon in brackets":     {"a: [b:c]", "1: a: must be a list of texts"},
		"list in a list":        {"a:\n- [b]", "2: a[0]: must be text, not a list"},
		"list in brackets":      {"a: [[b]]", "1: a: must be a list of texts"},
		"dash in a dash":        {"a:\n- - b", "2: a[0]: must be put in quotes"},
		"mapping in a list":     {"a:\n- b: c", "2: a[0]: must be put in quotes"},
		"list on the key line":  {"a: - b", "1: a: must be put in quotes"},
		"too deep":              {"a:\n  b:\n    c: d\n  e: f", "2: a.b: must have its value on the same line"},
		"list too deep":         {"a:\n  b:\n  - c", "2: a.b: must have a value"},
		"duplicate key":         {"a: b\nc: d\na: e", "3: a: duplicate key, first on line 1"},
		"duplicate inner key":   {"a:\n  b: c\n  b: d", "3: a.b: duplicate key, first on line 2"},
		"indented document":     {" a: b", "1: a: must not be indented"},
		"uneven keys":           {"a:\n  b: c\n   d: e", "3: a.d: must be indented by 2 spaces"},
		"uneven keys, less":     {"a:\n    b: c\n  d: e", "3: d: must not be indented"},
		"uneven items":          {"a:\n- b\n  - c", "3: a: must not be indented"},
		"uneven items, less":    {"a:\n    - b\n  - c", "3: must not be indented"},
		"key behind items":      {"a:\n  - b\n  c: d", "3: c: must not be indented"},
	} {
		t.Run(name, func(t *testing.T) {
			_, found := readYAML(test.text)
			if len(found) == 0 {
				t.Fatalf("got no problem, want %s", test.want)
			}
			got := found[0].Error()
			if found[0].line > 0 {
				got = fmt.Sprintf("%d: %s", found[0].line, got)
			}
			if !strings.HasPrefix(got, test.want) {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// Every line is reported once, and what lies below a bad one is not.
func TestReadYAMLReportsAll(t *testing.T) {
	members, found := readYAML("a: &x\n  b: c\n  d: e\nf: |\n  g\n\n  h\ni: j\nk: 'l\nm: n\n- o\n")
	if got, want := showYAML(members), `i:"j" m:"n"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	var lines []int
	for _, p := range found {
		lines = append(lines, p.line)
	}
	if got, want := fmt.Sprint(lines), "[1 4 9 11]"; got != want {
		t.Errorf("got problems on lines %s, want %s", got, want)
	}
}
