package disk

import "testing"

func TestHolder(t *testing.T) {
	for text, want := range map[string]string{
		string(ownHolder()):        holderOf(string(ownHolder())).String(),
		"1\nweb-0\n":               "process 1 on host web-0",
		"12\n":                     "process 12",
		"":                         "another process",
		"1":                        "process 1", // being written
		"1\n\x1b[2Jweb\r\npid:[2]": "process 1 on host ??2Jweb?",
	} {
		if got := holderOf(text).String(); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
