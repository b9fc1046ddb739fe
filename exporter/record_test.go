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
	if grown := after.StackSys - before.StackSys; grown > 1<<20 {
		t.Errorf("the stack grew by %d bytes", grown)
	}
}
