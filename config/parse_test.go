package config

import (
	"strings"
	"testing"
)

// texts is p, one problem a line.
func texts(p Problems) string { return p.Error() }

func TestParseRefuses(t *testing.T) {
	tests := map[string]struct{ yaml, want string }{
		"nothing":           {"", "the document is empty"},
		"only a comment":    {"# later\n", "the document is empty"},
		"an empty document": {"---\n", "the document is empty"},
		"null":              {"~\n", "the document is empty"},
		"too large":         {"# " + strings.Repeat("x", 1<<20), "the document is larger than 1 MiB"},
		"two documents":     {"a: 1\n---\nb: 2\n", "line 2: must be one document: another one begins here"},
		"a broken second":   {"a: 1\n---\nb: [\n", "line 3: syntax error: did not find expected node content"},

		"open quote":            {"a: 1\nb: 'x\nc: 2\n", "line 2: syntax error: found unexpected end of stream"},
		"open list":             {"a: 1\nb: [1, 2\nc: 3\n", "line 2: syntax error: did not find expected ',' or ']'"},
		"colon in text":         {"a: b: c\n", "line 1: syntax error: mapping values are not allowed in this context"},
		"tab":                   {"a:\n\tb: 2\n", "line 2: syntax error: found character that cannot start any token"},
		"indent, long mapping":  {"# head\na:\n  b: 1\n  c: 2\n d: 3\ne: 4\n", "line 5: syntax error: did not find expected key"},
		"indent of a list":      {"# head\na:\n  - 1\n - 2\n", "line 4: syntax error: did not find expected key"},
		"no colon, last line":   {"a: 1\nfoo", "line 2: syntax error: could not find expected ':'"},
		"not UTF-8":             {"a: 1\nb: \xff\n", "line 2: must be UTF-8 text"},
		"UTF-16":                {"\xff\xfea\x00", "line 1: must be UTF-8 text"},
		"control character":     {"a: 1\nb: \x01\nc: 2\n", "line 2: syntax error: control characters are not allowed"},
		"unquoted wildcard":     {"a: 1\nb: *.log\nc: 2\n", "line 2: syntax error: did not find expected alphabetic or numeric character"},
		"alias of nothing":      {"a: 1\nb: *foo\nc: 2\n", "line 2: syntax error: unknown anchor 'foo' referenced"},
		"unrendered template":   {"a: {{ .Values.x }}\n", "line 1: a: a key must be plain text: put it in quotes"},
		"null as key":           {"a: 1\n~: 2\n", "line 2: a key must be plain text: put it in quotes"},
		"a tag":                 {"a: !!str 1\n", "line 1: a: tags (!!str) are not supported: put a string in quotes"},
		"a tag on a mapping":    {"a: !x {b: 1}\n", "line 1: a: tags (!x) are not supported: put a string in quotes"},
		"a duplicate in a list": {"a:\n- b: 1\n  b: 2\n", "line 3: a[0].b: duplicate key, first on line 2"},
		"every duplicate": {"a: 1\nb: {c: 1, c: 2}\na: 2\na: 3\n", strings.Join([]string{
			"line 2: b.c: duplicate key, first on line 2",
			"line 3: a: duplicate key, first on line 1",
			"line 4: a: duplicate key, first on line 1"}, "\n")},
		"anchor, alias, merge": {"a: &x {b: 1}\nc: *x\nd:\n  <<: *x\n", strings.Join([]string{
			"line 1: a: anchors (&x) are not supported: write the value out where it is used",
			"line 2: c: aliases (*x) are not supported: write the value out, in quotes if the * belongs to it",
			"line 4: d: merge keys (<<) are not supported: write the keys out"}, "\n")},
		"33 deep": {strings.Repeat("[", 33) + strings.Repeat("]", 33),
			"line 1: " + strings.Repeat("[0]", 32) + ": must not be nested more than 32 deep"},
		"odd key": {"\"a.b\": {\"\": 1, \"\": 2}\n", `line 1: ["a.b"][""]: duplicate key, first on line 1`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, problems := Parse([]byte(tt.yaml))
			if got := texts(problems); got != tt.want {
				t.Errorf("Parse:\n got %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestParseTakes(t *testing.T) {
	tests := map[string]string{
		"head and end markers":   "---\na: 1\n...\n",
		"carriage returns":       "a: 1\r\nb: 2\r\n",
		"a list":                 "- a\n- b\n",
		"one value":              "a",
		"32 deep":                strings.Repeat("[", 32) + strings.Repeat("]", 32),
		"quoted merge key":       "\"<<\": 1\n",
		"the same key elsewhere": "a: {x: 1}\nb: {x: 1}\n",
		"exactly 1 MiB":          "a: 1\n#" + strings.Repeat("x", 1<<20-6),
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			doc, problems := Parse([]byte(text))
			if len(problems) > 0 {
				t.Errorf("Parse: got %s, want no problem", texts(problems))
			}
			if doc.IsZero() {
				t.Error("Parse: got an empty Node")
			}
		})
	}
}

// What Parse has refused must not come back as something else.
func TestParseTakesOutWhatItRefuses(t *testing.T) {
	doc, problems := Parse([]byte("first: 1\nfirst: 2\nalias: *a\n"))
	if len(problems) != 1 || !doc.IsZero() {
		t.Fatalf("unknown alias: got %v and keys %v, want a syntax error and nothing", problems, doc.Keys())
	}
	doc, _ = Parse([]byte("first: 1\nfirst: x\nsecond: &a 2\nthird: *a\nfourth: !!str 4\n"))
	got := struct {
		First  int `yaml:"first"`
		Second int `yaml:"second"`
		Third  int `yaml:"third"`
		Fourth int `yaml:"fourth"`
	}{Third: 30, Fourth: 40}
	if problems := doc.Decode(&got); len(problems) > 0 {
		t.Errorf("Decode: got %s, want nothing that Parse has reported", texts(problems))
	}
	if got.First != 1 || got.Second != 2 || got.Third != 30 || got.Fourth != 40 {
		t.Errorf("got %+v, want the first of two keys, and the defaults of what was refused", got)
	}
}
