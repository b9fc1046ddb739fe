package terminal

import "testing"

func TestAppendVisible(t *testing.T) {
	for name, test := range map[string]struct{ text, want, rest string }{
		"text of the world":       {"déjà vu, 決定, قرار, 👍\t\n", "déjà vu, 決定, قرار, 👍\t\n", ""},
		"C0":                      {"\x1b[2J\r\x07", `\u001b[2J\u000d\u0007`, ""},
		"DEL and C1":              {"\x7f\u0085\u009b31m", `\u007f\u0085\u009b31m`, ""},
		"C1 as a byte":            {"a\x9bm", `a\x9bm`, ""},
		"bidirectional":           {"\u200e\u200f\u202a\u202e\u2066\u2069\u061c", `\u200e\u200f\u202a\u202e\u2066\u2069\u061c`, ""},
		"invisible":               {"\u200b\u200d\u2028\u2029\ufeff\u00ad", `\u200b\u200d\u2028\u2029\ufeff\u00ad`, ""},
		"tags, beyond the plane":  {"\U000e0041", `\udb40\udc41`, ""},
		"a character that begins": {"a\xe2\x80", "a", "\xe2\x80"},
	} {
		t.Run(name, func(t *testing.T) {
			got, rest := appendVisible(nil, []byte(test.text))
			if string(got) != test.want || string(rest) != test.rest {
				t.Errorf("got %q and %q, want %q and %q", got, rest, test.want, test.rest)
			}
		})
	}
}
