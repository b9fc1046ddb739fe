package decision_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/docket-export/docket/decision"
)

// detailsSamples are texts on the border of JSON. Which of them are JSON, the
// standard library decides.
var detailsSamples = []string{
	`null`, `true`, `false`, `nul`, `nulll`, `tru`, `True`, `truefalse`, `t`,
	`0`, `-0`, `-`, `--1`, `+1`, `00`, `01`, `-01`, `1.`, `.5`, `1.5`, `1.5.5`, `1e`, `1e+`, `1E-07`, `1e5.5`, `0e0`, `0x1`, `1_0`, `1 2`,
	`12345678901234567890123.4560e+0789`, `NaN`, `Infinity`,
	`""`, `"`, `"a`, `a"`, `"a""b"`, `"\"`, `"\`, `"\\"`, `"\"\\\/\b\f\n\r\t"`, `"\a"`, `"\x41"`, `'a'`,
	`"\u"`, `"\u00"`, `"\u00e9"`, `"\u00E9"`, `"\u00g9"`, `"\u00e`, `"\ud800"`, `"\ud83d\ude00"`, `"\u0000"`, `"\U0001f600"`,
	"\"\x00\"", "\"\x1f\"", "\"\x7f\"", "\"a\nb\"", "\"a\tb\"", "\"\u2028\"", "\"中\"", "\"1234567中\"", "\"\xff\"", "\"\xed\xa0\x80\"", "\"\xc0\x80\"", "\"\xe4\xb8\"", "\"\ufffd\"",
	`[]`, `[`, `]`, `[]]`, `[[]`, `[,]`, `[1,]`, `[,1]`, `[1 2]`, `[1,,2]`, `[1:2]`, `[}`, `[1}`, `["a":1]`,
	`{}`, `{`, `}`, `{}}`, `{{}}`, `{,}`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{"a":1 "b":2}`, `{"a":1,,"b":2}`, `{"a"::1}`, `{"a":1:2}`, `{1:2}`, `{null:1}`, `{a:1}`, `{]`, `{"a":1]`, `{"a",1}`, `{"a":1,"a":2}`, `{"a":{"b":[{}]}}`,
	`[1],`, `,`, `:`, `1,`, `1:`, `1]`, `{}{}`, `[][]`, `/**/1`, `1//`,
	" ", "", "\ufeff1", "\u00a01", "1\v", "1\f", " \t\r\n1 \t\r\n", "\x001", "1\x00",
	" { \"a b\" : [ 1 , \"x \\\" y\" , { } , [ ] , null ] ,\r\n\t\"c\" : \"  \" } ",
	`{"long enough for whole words": "and a string that takes more than one of them \" with \\ escapes \u00e9 and some more text"}`,
}

func TestAppendLineDetails(t *testing.T) {
	for _, details := range detailsSamples {
		checkDetails(t, []byte(details))
	}
}

// Every byte at every place of values that take whole words and less.
func TestAppendLineDetailsBytes(t *testing.T) {
	for _, whole := range []string{`[1,{"a":-1.5e3}, null]`, `{"abcdefghij":"k\u00e9lmnop","q":[]}`} {
		for at := range len(whole) {
			for c := range 256 {
				details := []byte(whole)
				details[at] = byte(c)
				checkDetails(t, details)
			}
			checkDetails(t, []byte(whole[:at]))
		}
	}
}

// checkDetails compares what AppendLine makes of details with what the standard
// library thinks of them.
func checkDetails(t *testing.T, details []byte) {
	t.Helper()
	r := decision.Record{Details: slices.Clip(details)} // what reads beyond it panics
	got, err := r.AppendLine(nil)
	if len(details) > 0 && (!json.Valid(details) || !utf8.Valid(details)) {
		if err == nil || r.Validate() == nil {
			t.Errorf("%q: got accepted in %q, want refused", details, got)
		}
		return
	}
	if err != nil || r.Validate() != nil {
		t.Errorf("%q: got error %v, want accepted", details, err)
		return
	}
	want := `{"schemaVersion":1}` + "\n"
	if len(details) > 0 {
		var compact bytes.Buffer
		if err := json.Compact(&compact, details); err != nil {
			t.Fatal(err)
		}
		want = `{"details":` + compact.String() + `,"schemaVersion":1}` + "\n"
	}
	if string(got) != want {
		t.Errorf("%q:\ngot  %q\nwant %q", details, got, want)
	}
}

// The bound of the depth is the one of encoding/json, whatever is nested and on
// both sides of what is kept on the stack.
func TestAppendLineDetailsDepth(t *testing.T) {
	shapes := map[string]struct{ open, inner, end string }{
		"arrays":  {"[", "", "]"},
		"objects": {`{"a":`, "1", "}"},
		"both":    {`[{"a":`, "[]", "}]"},
	}
	for name, s := range shapes {
		for _, n := range []int{1, 16, 31, 32, 33, 64, 4999, 5000, 5001, 9999, 10000, 10001, 200000} {
			t.Run(fmt.Sprint(name, n), func(t *testing.T) {
				checkDetails(t, []byte(strings.Repeat(s.open, n)+s.inner+strings.Repeat(s.end, n)))
				checkDetails(t, []byte(strings.Repeat(s.open, n)))
			})
		}
	}
}
