package rawjson_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"unicode/utf8"

	"github.com/docket-export/docket/exporter/internal/rawjson"
)

// decode makes of text what encoding/json does, but that numbers stay text.
func decode(text []byte) any {
	switch text[0] {
	case '{':
		members := map[string]any{}
		for name, value := range rawjson.Members(text) {
			members[string(name)] = decode(value)
		}
		return members
	case '[':
		items := []any{}
		for item := range rawjson.Items(text) {
			items = append(items, decode(item))
		}
		return items
	case '"':
		return string(rawjson.Unquote(text))
	case 't', 'f':
		return text[0] == 't'
	case 'n':
		return nil
	}
	return json.Number(text)
}

func FuzzWalk(f *testing.F) {
	for _, seed := range []string{
		`{}`, ` { "a" : [ 1 , -2.5e3 , true , false , null ] , "b\"\\" : { } , "c" : [ [ ] , { "d" : "}],{\\" } ] } `,
		`{"a":1,"a":{"b":2}}`, `{"\u0061\ud83d\ude00\ud800":"\u00e9\n\\\""}`, `[[[["x"]]],"",0]`, `"\\"`, `12`, `{"a":`, `{"a"}`, `[,]`, `}`, `"`, `\`, `{"a":"b\`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !json.Valid(text) || !utf8.Valid(text) { // which must do no harm
			for i := range text {
				for what, end := range map[string]int{
					"StringEnd": rawjson.StringEnd(text, i), "ValueEnd": rawjson.ValueEnd(text, i), "SkipSpace": rawjson.SkipSpace(text, i),
				} {
					if end < i || end > len(text) {
						t.Errorf("%s of %q at %d: got %d, of %d", what, text, i, end, len(text))
					}
				}
				if _, value := rawjson.Name(text, i); value < i || value > len(text) {
					t.Errorf("Name of %q at %d: got %d, of %d", text, i, value, len(text))
				}
			}
			for range rawjson.Members(text) {
			}
			for range rawjson.Items(text) {
			}
			return
		}
		text = text[rawjson.SkipSpace(text, 0):]
		text = text[:rawjson.ValueEnd(text, 0)]
		var want any
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		if err := dec.Decode(&want); err != nil {
			t.Fatal(err)
		}
		if got := decode(text); !reflect.DeepEqual(got, want) {
			t.Errorf("%s\ngot  %#v\nwant %#v", text, got, want)
		}
	})
}

// Nesting costs no stack, and a walk stops where it is told to.
func TestWalkStops(t *testing.T) {
	deep := append(bytes.Repeat([]byte(`{"a":[`), 1_000_000), bytes.Repeat([]byte("]}"), 1_000_000)...)
	if end := rawjson.ValueEnd(deep, 0); end != len(deep) {
		t.Errorf("end of %d bytes: got %d", len(deep), end)
	}
	seen := 0
	for range rawjson.Members([]byte(`{"a":1,"b":2}`)) {
		seen++
		break
	}
	for range rawjson.Items([]byte(`[1,2]`)) {
		seen++
		break
	}
	if seen != 2 {
		t.Errorf("got %d elements, want 2", seen)
	}
}
