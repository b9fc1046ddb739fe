package runs

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/docket-export/docket/decision/rawjson"
)

func FuzzEntry(f *testing.F) {
	for _, seed := range []string{
		`{"id":"2026-01-05T10:04:00Z","message":"audit is started"}`,
		`{"id":"a","eventType":"violation_audited","group":"g","kind":"K","name":"n","details":{"x":["y"]}}`,
		` { "id" : "a" , "details":[{"kind":"no"},"}",1.5,null,"\\\""], "eventType":"e","group":"","kind":"k\u003c","name":"n","message":"m" } `,
		`{"a":[{},[],[[]],{"b":{}}],"c":-0.5e+3}`, `{"a":01}`, `{"a":"\u12g4"}`, `{"a":1,}`, `{"a":[1,]}`, `{"a":-}`, "{\"a\":\"01234567\x0189\"}", `{"a":"01234567\`, `{"a":{"b":1}`, `{"a":1}}`, `{"a":nul}`,
		"{\"a\":\"01234567\x1f89abcdef\"}", "{\"a\":\"01234567\xff89abcdef\"}", "{\"a\":\"\xc3\"}", "{\"\xff\":1}", "{\"a\":\xff}", "{\"a\":1\xff}",
		`{"é":"äöü 日本語 😀 é\"é", "a": "!#[]^_ 01234567~"}`, "{\"a\":\"\x7f\u2028\ufffd\\\"01234567\x00\"}",
		`{"id":1,"message":null,"eventType":{"id":"x"}}`, `{}`, `{"a":1}`, `{"a":true}`, `[]`, `x`, `{"id":"\\"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var want map[string]any
		isObject := utf8.Valid(text) && json.Unmarshal(text, &want) == nil && want != nil
		if got := isRecord(text); got != isObject {
			t.Fatalf("%q: got a record: %v, want %v", text, got, isObject)
		}
		if !isObject || bytes.Contains(text, []byte(`\`)) && !bytes.Contains(text, []byte(`\u003c`)) {
			return
		}
		e := entryOf(text)
		for name, got := range map[string]rawjson.Value{"id": e.id, "eventType": e.eventType, "kind": e.kind, "name": e.name} {
			value, _ := want[name].(string)
			if strings.Count(string(text), `"`+name+`"`) == 1 && string(got.Text()) != value {
				t.Fatalf("%q: got %s %q, want %q", text, name, got, value)
			}
		}
	})
}
