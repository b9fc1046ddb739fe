package rawjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// want is what the standard library says of line.
func want(line []byte) Kind {
	if !json.Valid(line) || !utf8.Valid(line) {
		return Invalid
	}
	switch bytes.TrimLeft(line, " \t\r\n")[0] {
	case '{':
		return Object
	case '[':
		return Array
	case '"':
		return String
	case 't', 'f':
		return Boolean
	case 'n':
		return Null
	}
	return Number
}

func compare(t *testing.T, line []byte) {
	t.Helper()
	if got, want := KindOf(line), want(line); got != want {
		t.Errorf("%.200q: got %v, want %v", line, got, want)
	}
}

// The table says what RFC 8259 does, so that it does not rest on the standard library
// alone.
func TestKindOf(t *testing.T) {
	tests := map[string]struct {
		want  Kind
		lines []string
	}{
		"objects": {Object, []string{
			`{}`, `{ }`, `{"":0}`, `{"a":1,"b":2}`, `{"a":1,"a":2}`, `{"a":{}}`, `{"a":[]}`, `{"a":{"b":{"c":[{}]}}}`,
			" \t\r\n{ \t\r\n\"a\" \t\r\n: \t\r\n1 \t\r\n, \t\r\n\"b\" \t\r\n: \t\r\n[ \t\r\n] \t\r\n} \t\r\n", `{"\u0000":"\\"}`,
		}},
		"arrays": {Array, []string{`[]`, `[ ]`, `[[],{}]`, `["",0,true,false,null]`, `[1 ,2 , 3]`, `[[[[1]]],2]`, `[{"a":[{"b":1}]}]`}},
		"strings": {String, []string{
			`""`, `"\"\\\/\b\f\n\r\t"`, `"\u00e9\u00E9\uFFFF\u0000"`, `"\ud83d\ude00"`, `"\ud800"`, `"\udc00x"`, `"` + "\x7f" + `"`,
			`"é"`, `"日本"`, "\"\U0001f6ab\"", "\"\u0080\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff\"", "\"\u2028\u2029\ufeff\"", `"[{,:}]"`,
		}},
		"numbers": {Number, []string{`0`, `-0`, `1`, `-1`, `10`, `1234567890123456789012345678901234567890`, `0.0`, `-0.5`, `1.25`, `0e0`, `0E+1`, `1e-1`, `1.5e400`, ` 1 `}},
		"words":   {Boolean, []string{`true`, `false`, ` true`, "false\r"}},
		"null":    {Null, []string{`null`, "\tnull\n"}},
		"no value": {Invalid, []string{
			``, ` `, "\n", `,`, `:`, `]`, `}`, "\x00", "\ufeff{}", "\u00a01", "\v1", "\f1", "\x0b", `//`, `/**/1`, `'a'`, `a`, `NaN`, `Infinity`, `-Infinity`, `undefined`,
			`1,2`, `{},{}`, `[],[]`, `"a","b"`, `null,`, `,1`, `1 , 2`,
		}},
		"broken objects": {Invalid, []string{
			`{`, `{ `, `{"`, `{"a`, `{"a"`, `{"a" `, `{"a":`, `{"a": `, `{"a":1`, `{"a":1 `, `{"a":1,`, `{"a":1,}`, `{,}`, `{,"a":1}`, `{"a"}`, `{"a",1}`, `{"a" 1}`, `{"a"::1}`, `{:1}`,
			`{1}`, `{true}`, `{[]}`, `{{}}`, `{"a":1,2}`, `{a:1}`, `{1:1}`, `{null:1}`, `{[]:1}`, `{{}:1}`, `{"a":1 "b":2}`, `{"a":1,,"b":2}`, `{"a":1:2}`, `{"a":}`, `{"a":,"b":1}`, `{"a":1]`, `{]`, `{"a":[}`, `{"a":1}}`, `{"a":1},`, `{}{}`, `{} x`, `{};`, "{}\x00",
		}},
		"broken arrays": {Invalid, []string{`[`, `[ `, `[1`, `[1,`, `[1,]`, `[,]`, `[,1]`, `[1,,2]`, `[1 2]`, `["a":1]`, `[1:2]`, `[}`, `[1}`, `[{]`, `[]]`, `[][]`, `[],`, `[[]`, `[1]x`, `[true false]`, `[""""]`}},
		"broken strings": {Invalid, []string{
			`"`, `"a`, `"\"`, `"\`, `"\q"`, `"\'"`, `"\0"`, `"\x41"`, `"\U0041"`, `"\u"`, `"\u1"`, `"\u12"`, `"\u123"`, `"\u123`, `"\u12`, `"\u123g"`, `"\u12g4"`, `"\u1g34"`, `"\ug234"`, `"\u 123"`, `"\u-123"`, `"\u123:"`, `"\u12/3"`, "\"\\u123`\"", `"\u12@3"`,
			"\"\\\n\"", "\"\\\x00\"", "\"\x00\"", "\"\x01\"", "\"\t\"", "\"\n\"", "\"\r\"", "\"\x1f\"", `""x`, `"" ""`, `"a""`, "\"\\\u00e9\"",
		}},
		"not UTF-8": {Invalid, []string{
			"\"\x80\"", "\"\xbf\"", "\"\xc0\x80\"", "\"\xc1\xbf\"", "\"\xc3\"", "\"\xc3(\"", "\"\xe0\x80\x80\"", "\"\xe0\x9f\xbf\"", "\"\xe2\x82\"", "\"\xed\xa0\x80\"", "\"\xed\xbf\xbf\"", "\"\xf0\x80\x80\x80\"", "\"\xf0\x8f\xbf\xbf\"",
			"\"\xf4\x90\x80\x80\"", "\"\xf5\x80\x80\x80\"", "\"\xf8\x88\x80\x80\x80\"", "\"\xfe\"", "\"\xff\"", "{\"\xff\":1}", "{\"a\":1,\"b\":[\"\xff\"]}", "\xff", "{}\xff", "\xc3\xa9",
		}},
		"broken numbers": {Invalid, []string{
			`-`, `--1`, `+1`, `01`, `-01`, `00`, `1.`, `-1.`, `.5`, `-.5`, `1..2`, `1.2.3`, `1e`, `1E`, `1e+`, `1e-`, `1e1.5`, `1e+-1`, `1e1e1`, `1%1`, "1\x051", `1.e1`, `0x1`, `1_0`, `1a`, `1-`, `1+1`, `1 2`, `- 1`, `1/`, `1:`, `٣`, `[01]`, `[1.]`, `[-]`, `[1e]`, `{"a":-}`,
		}},
		"broken words": {Invalid, []string{`t`, `tr`, `tru`, `truE`, `True`, `truee`, `true1`, `f`, `fals`, `falsf`, `falsey`, `n`, `nul`, `nulL`, `nill`, `nulll`, `[tru]`, `[fals]`, `[nul]`, `truefalse`, `tnull`}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for _, line := range tt.lines {
				if got := KindOf([]byte(line)); got != tt.want {
					t.Errorf("%q: got %v, want %v", line, got, tt.want)
				}
				compare(t, []byte(line))
			}
		})
	}
}

func TestKindsHaveNames(t *testing.T) {
	for kind, want := range map[Kind]string{Invalid: "invalid", Object: "object", Array: "array", String: "string", Number: "number", Boolean: "boolean", Null: "null"} {
		if got := kind.String(); got != want {
			t.Errorf("kind %d: got %q, want %q", kind, got, want)
		}
	}
}

// Any byte may stand anywhere in a string, which may begin and end anywhere in a block.
func TestEveryByteAtEveryPlace(t *testing.T) {
	fill := []string{"", "é", `\n`, `\"`, "\U0001f6ab"}
	for at := range 2*blockSize + 8 {
		for c := range 256 {
			line := []byte(`{"` + strings.Repeat("x", at) + string(rune('y')) + fill[c%len(fill)] + `z":"v"}`)
			line[2+at] = byte(c)
			compare(t, line)
		}
	}
}

func TestEveryEscape(t *testing.T) {
	for _, escape := range []string{`\n`, `\u0aF9`} {
		for at := 1; at < len(escape); at++ {
			for c := range 256 {
				line := []byte(`{"a":"` + escape + `"}`)
				line[6+at] = byte(c)
				compare(t, line)
			}
		}
	}
}

// A string of every length, with every byte that matters at every place of it.
func TestStringsOfEveryLength(t *testing.T) {
	special := []string{"", `"`, `\`, `\\`, `\"`, `\u00e9`, `\u00g9`, `\ud800`, "\x00", "\x1f", "\x20", "\x21", "\x23", "\x5b", "]", "\x7f", "é", "\xc3", "\x80", "日", "\xed\xa0\x80", "\U0001f6ab", "\xff"}
	for _, begin := range []int{0, 5, 40} {
		for length := range 41 {
			for _, s := range special {
				for at := range length + 1 {
					line := fmt.Sprintf(`%*s["%s%s%s"]`, begin, "", strings.Repeat("a", at), s, strings.Repeat("b", length-at))
					compare(t, []byte(line))
				}
			}
		}
	}
}

// A line that is cut anywhere ends within what was being read, at each place of a block.
func TestCutAnywhere(t *testing.T) {
	for _, record := range records(t) {
		for n := range record {
			compare(t, record[:n])
		}
	}
}

func TestEveryMutation(t *testing.T) {
	bytesToTry := []byte("\"\\/{}[]:,09-.eEtu \t\r\n\x00\x1f!\x7f\x80\xbf\xc3\xed\xffaFg")
	for _, record := range records(t) {
		line := make([]byte, 0, len(record)+1)
		for i := range record {
			for _, c := range bytesToTry {
				line = append(line[:0], record...)
				line[i] = c
				compare(t, line) // replaced
				line = append(append(append(line[:0], record[:i]...), c), record[i:]...)
				compare(t, line) // inserted
			}
			compare(t, append(append(line[:0], record[:i]...), record[i+1:]...)) // taken out
		}
	}
}

// Beyond what KindOf keeps account of, and beyond what the standard library takes.
func TestNesting(t *testing.T) {
	shapes := map[string]struct{ open, inner, end string }{
		"arrays":  {"[", "", "]"},
		"objects": {`{"a":`, "1", "}"},
		"both":    {`[{"a":`, "[]", "}]"},
		"beside":  {`[{},[],"",{"b":[`, "0", "]},1]"},
	}
	for name, shape := range shapes {
		for _, n := range []int{1, 2, 20, 21, 31, 32, 33, 62, 63, 64, 65, 66, 127, 128, 129, 4999, 5000, 5001, 9999, 10000, 10001, 20000} {
			nested := strings.Repeat(shape.open, n) + shape.inner + strings.Repeat(shape.end, n)
			cut := nested[:len(nested)-1]
			t.Run(fmt.Sprint(name, " ", n), func(t *testing.T) {
				for _, line := range []string{nested, cut, cut + "}", cut + "]", nested + "]", nested + "}", `{"é":` + nested + `}`, `["é",` + nested + `,"` + "\xff" + `"]`} {
					compare(t, []byte(line))
				}
			})
		}
	}
	for _, depth := range []int{63, 64, 65, 10000} {
		nested := []byte(strings.Repeat("[", depth) + strings.Repeat("]", depth))
		if got := KindOf(nested); got != Array {
			t.Errorf("%d levels: got %v, want %v", depth, got, Array)
		}
	}
	if got := KindOf([]byte(strings.Repeat("[", 10001) + strings.Repeat("]", 10001))); got != Invalid {
		t.Errorf("10001 levels: got %v, want %v", got, Invalid)
	}
}

func TestNothingIsAllocated(t *testing.T) {
	lines := records(t)
	lines = append(lines, []byte(strings.Repeat("[", maxOpen)+strings.Repeat("]", maxOpen)), bytes.Repeat([]byte("["), maxOpen), []byte(`{"a":"`+"\xff"+`"}`))
	if n := testing.AllocsPerRun(10, func() {
		for _, line := range lines {
			KindOf(line)
		}
	}); n != 0 {
		t.Errorf("got %v allocations for %d lines, want none", n, len(lines))
	}
}

// What is in front of a line and behind it is none of its business.
func TestLineAlone(t *testing.T) {
	around := []byte(`"\` + `{"a":"b"}` + `"]}` + "\xff" + strings.Repeat("\x00", blockSize))
	line := around[2:11]
	before := bytes.Clone(around)
	if got := KindOf(line); got != Object {
		t.Errorf("got %v, want %v", got, Object)
	}
	if got := KindOf(line[:len(line)-1]); got != Invalid {
		t.Errorf("without its end: got %v, want %v", got, Invalid)
	}
	if !bytes.Equal(around, before) {
		t.Errorf("the bytes were changed: got %q, want %q", around, before)
	}
}

// records returns records as engines write them, and some that have everything.
func records(t testing.TB) [][]byte {
	t.Helper()
	all := [][]byte{
		[]byte(`{"id":"7f3c1d9a-0b42","details":{"missing":["owner","team"],"n":[0,-1.5e+10,true,false,null,{},[]]},"message":"you must provide: {\"owner\"}\u00e9\\","t":1795246653.2353003}`),
		[]byte("\t{ \"Größe\" : \"日本 \U0001f6ab\" , \"\" : [ 1 , [ ] , { \"a\" : { } } ] } \r"),
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "testdata", "samples", "gatekeeper", "webhook-log-denies.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(text, []byte("\n"))
	return append(all, lines[0])
}
