package terminal

import "testing"

func TestVisible(t *testing.T) {
	for text, want := range map[string]string{
		"a\n b\t\u2028c":   `a b c`,
		"\x1b[31m\u202e":   `\u001b[31m\u202e`,
		"héllo 決定 👍":       "héllo 決定 👍",
		"cut \xe2\x80":     "cut ??",
		"\u200bzero width": `\u200bzero width`,
	} {
		if got := Visible(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestCut(t *testing.T) {
	for _, test := range []struct {
		text string
		most int
		want string
	}{
		{"abc", 3, "abc"},
		{"abcd", 3, "ab…"},
		{"abcd", 1, "…"},
		{"abcd", 0, ""},
		{"abcd", -1, ""},
		{"決定だ", 6, "決定だ"},
		{"決定だ", 5, "決定…"},
		{"決定だ", 4, "決…"},
		{"決定だ", 2, "…"},
		{"e\u0301e\u0301e\u0301", 3, "e\u0301e\u0301e\u0301"},
		{"e\u0301e\u0301e\u0301", 2, "e\u0301…"},
		{"👍👍", 3, "👍…"},
	} {
		got := Cut(test.text, test.most)
		if got != test.want {
			t.Errorf("%q in %d: got %q, want %q", test.text, test.most, got, test.want)
		}
		if Cells(got) > max(test.most, 0) {
			t.Errorf("%q in %d: got %d columns", test.text, test.most, Cells(got))
		}
	}
}
