package config

import (
	"regexp"
	"slices"
	"testing"
	"unicode/utf8"
)

// lineBreak is what YAML 1.1 ends a line with.
var lineBreak = regexp.MustCompile(`\r\n|[\r\n\x{85}\x{2028}\x{2029}]`)

// FuzzDecode: whatever the document, the problems have a line in it (unless they
// concern all of it) and stand in order, and what is taken is written so that it
// is taken again.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		"text: a\nlist: [a, b]\nsub: {name: x, count: 3}\nsubs:\n- name: y\n",
		"a: &x {b: 1}\nc: *x\nd: {<<: *x}\n", "a: 1\n---\nb: 2\n", "a: !!str 1\n", "? [a]\n: b\n",
		"text: |\n  a\n  b\nlabels: {a.b: 'c'}\nlater: {x: [1]}\n", "size: 1.5\nwait: 5\nsmall: 128\nyes: on\n",
		"a: b: c", "\t", "\xff", "\xfe\xff\x00a", "[[[[", "{{ .x }}", "%YAML 1.2\n---\na: 1\n", "'", "- - - a",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, problems := Parse(data)
		var e everything
		mismatches := doc.Decode(&e)
		if !inOrder(problems) || !inOrder(mismatches) {
			t.Errorf("not in order: %v, %v", problems, mismatches)
		}
		problems = append(problems, mismatches...)
		located := doc.Locate(problems)
		for _, p := range located {
			if p.Line > 1+len(lineBreak.FindAll(data, -1)) {
				t.Errorf("%v: the document has no such line", p)
			}
			if p.Line == 0 && p.Path != "" || p.Text == "" {
				t.Errorf("%+v: no place or no text", p)
			}
		}
		if !inOrder(located) {
			t.Errorf("not in order: %v", located)
		}
		if len(problems) > 0 {
			return
		}
		e.Later = Node{} // written as it came: its comments are the library's affair
		text, err := Encode(e)
		if err != nil {
			t.Fatalf("Encode: %v", err)
		}
		again, problems := Parse(text)
		var e2 everything
		problems = append(problems, again.Decode(&e2)...)
		if len(problems) > 0 {
			t.Fatalf("what Encode wrote: %v\n%s", problems, text)
		}
		if text2, err := Encode(e2); err != nil || string(text2) != string(text) {
			t.Errorf("written again: %v\n%s\nwant\n%s", err, text2, text)
		}
	})
}

func inOrder(p Problems) bool {
	return slices.IsSortedFunc(p, func(a, b Problem) int { return a.Line - b.Line })
}

// FuzzEncode: any text is read back as it was, as a value, an item and a key.
func FuzzEncode(f *testing.F) {
	for _, seed := range []string{"", "a", " \nx", "\t\n", "a\r\nb", "\u0085", "\u2028\n x", "#\n", "\n a", "\ufeffa", "---", "? x", ": ", "<<", "1_0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want := everything{Text: s, List: []string{s}, Labels: map[string]string{s: s}}
		text, err := Encode(want)
		if err != nil {
			if utf8.ValidString(s) {
				t.Fatal(err)
			}
			return
		}
		doc, problems := Parse(text)
		var got everything
		problems = append(problems, doc.Decode(&got)...)
		if len(problems) > 0 || got.Text != s || got.List[0] != s || got.Labels[s] != s {
			t.Errorf("%q: got %+v, %v\n%s", s, got, problems, text)
		}
	})
}
