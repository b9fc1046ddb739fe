package exporter

import (
	"bytes"
	"encoding/json"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/docket-export/docket/sources"
)

// maxDepth is how deeply a record may nest: the bound of encoding/json, so that
// whoever reads the record with it can.
const maxDepth = 10000

// What is said of a refused line is part of the protocol's answers and of what is kept.
func TestRefusalsSayWhatIsWrong(t *testing.T) {
	tests := map[string]struct {
		line   string
		reason sources.Reason
		detail string
	}{
		"an object":              {` {"a":"\u00fc ü"} `, "", ""},
		"too long":               {`{"a":"` + strings.Repeat("x", 100) + `"}`, sources.TooLarge, "line of 108 bytes, at most 64 are allowed"},
		"not JSON":               {`{"a":tru}`, sources.InvalidJSON, "invalid character '}' in literal true (expecting 'e'), at byte 9"},
		"cut":                    {`{"a":`, sources.InvalidJSON, "unexpected end of JSON input, at byte 5"},
		"a second object":        {`{}{}`, sources.InvalidJSON, "invalid character '{' after top-level value, at byte 3"},
		"a control character":    {"{\"a\":\"\x1f\"}", sources.InvalidJSON, "invalid character '\\x1f' in string literal, at byte 7"},
		"not UTF-8":              {"{\"a\":\"\xff\"}", sources.InvalidJSON, "not UTF-8 at byte 6"},
		"a surrogate in UTF-8":   {"{\"aü\":\"\xed\xa0\x80\"}", sources.InvalidJSON, "not UTF-8 at byte 8"},
		"neither JSON nor UTF-8": {"nope\xff", sources.InvalidJSON, "not UTF-8 at byte 4"},
		"an array":               {"\t[{}]", sources.NotObject, "a JSON array, not an object"},
		"a string":               {` "{}"`, sources.NotObject, "a JSON string, not an object"},
		"a boolean":              {`false`, sources.NotObject, "a JSON boolean, not an object"},
		"null":                   {`null`, sources.NotObject, "a JSON null, not an object"},
		"a number":               {`-1.5e3`, sources.NotObject, "a JSON number, not an object"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			reason, detail := checkRecord([]byte(tt.line), 64)
			if reason != tt.reason || detail != tt.detail {
				t.Errorf("got %q, %q, want %q, %q", reason, detail, tt.reason, tt.detail)
			}
		})
	}
}

func TestDepthIsBounded(t *testing.T) {
	nested := func(n int) []byte {
		return []byte(`{"a":` + strings.Repeat("[", n-1) + strings.Repeat("]", n-1) + "}")
	}
	if reason, detail := checkRecord(nested(maxDepth), 1<<20); reason != "" {
		t.Errorf("depth %d: refused as %s: %s", maxDepth, reason, detail)
	}
	if reason, _ := checkRecord(nested(maxDepth+1), 1<<20); reason != sources.InvalidJSON {
		t.Errorf("depth %d: got %q, want InvalidJSON", maxDepth+1, reason)
	}
	many := []byte(`{"a":[` + strings.Repeat("{},", 2*maxDepth) + `{}]}`)
	if reason, detail := checkRecord(many, 1<<20); reason != "" {
		t.Errorf("many brackets, not deep: refused as %s: %s", reason, detail)
	}
}

// checkRecord must agree with the standard library about what JSON is.
func FuzzCheckRecord(f *testing.F) {
	for _, s := range []string{`{}`, ` {"a":[1,-0.5e+3,"\u00e9\n",null,true]} `, `{"a":01}`, `{"a":"\q"}`, `[]`, `"x"`, `1`, `{"a":1,}`, "{\"a\":\"\xff\"}", `{"a":tru}`, `nul`, `-`, `1.`, `.5`, `{"a" :  1 }`, `{"a":"\ud800"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if len(bytes.TrimLeft(line, jsonSpace)) == 0 || bytes.IndexByte(line, '\n') >= 0 {
			return
		}
		reason, _ := checkRecord(line, 1<<20)
		valid := utf8.Valid(line) && json.Valid(line)
		object := valid && bytes.TrimLeft(line, jsonSpace)[0] == '{'
		want := sources.Reason("")
		switch {
		case !valid:
			want = sources.InvalidJSON
		case !object:
			want = sources.NotObject
		}
		if reason != want {
			t.Errorf("%q: got %q, want %q", line, reason, want)
		}
	})
}

// One line must not be able to end the process: nesting takes no stack.
func TestDeeplyNestedLineCostsNoStack(t *testing.T) {
	line := bytes.Repeat([]byte("["), 16<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if reason, _ := checkRecord(line, len(line)); reason != sources.InvalidJSON {
		t.Errorf("got %q, want InvalidJSON", reason)
	}
	runtime.ReadMemStats(&after)
	if grown := int64(after.StackSys) - int64(before.StackSys); grown > 1<<20 { // it may have shrunk
		t.Errorf("the stack grew by %d bytes", grown)
	}
}
