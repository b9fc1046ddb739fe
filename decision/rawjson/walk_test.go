package rawjson_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/docket-export/docket/decision/rawjson"
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
		return string(rawjson.Value(text).Text())
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
			rawjson.Get(text, "a.0.b")
			rawjson.Value(text).Text()
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
		var compact bytes.Buffer
		if err := json.Compact(&compact, text); err != nil {
			t.Fatal(err)
		}
		if got := rawjson.AppendCompact(nil, text); !bytes.Equal(got, compact.Bytes()) {
			t.Errorf("%s\ngot  %s\nwant %s", text, got, compact.Bytes())
		}
	})
}

// A value in pieces ends where it does in one, and so does one that is not JSON.
func FuzzEnd(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,"]}\\\"{",{}]},"next":1`, `"a\\"1`, `"\\\"a"`, `-1.5e3,`, `true }`, `[[[[`, `"\`, `]`, ` 1`, `{"a":"b\\"}x`, `[}]]`,
	} {
		f.Add([]byte(seed), 3)
	}
	f.Fuzz(func(t *testing.T, text []byte, size int) {
		want := rawjson.ValueEnd(text, 0)
		var e rawjson.End
		got, done := 0, false
		for rest := text; len(rest) > 0 && !done; {
			piece := rest[:min(len(rest), max(size, 1))]
			var n int
			n, done = e.Next(piece)
			got += n
			rest = rest[n:]
			if !done && n != len(piece) {
				t.Fatalf("%q in pieces of %d: took %d of %d bytes", text, size, n, len(piece))
			}
		}
		if got != want {
			t.Errorf("%q in pieces of %d: got the end at %d, want %d", text, size, got, want)
		}
	})
}

// A quote that follows a backslash ends no string, also where a piece ends between them.
func TestEndInPieces(t *testing.T) {
	const value = `{"a\\\"b":["\\","}"]}`
	for size := 1; size <= len(value); size++ {
		var e rawjson.End
		got, done := 0, false
		for !done && got < len(value) {
			var n int
			n, done = e.Next([]byte(value[got:min(got+size, len(value))]))
			got += n
		}
		if got != len(value) || !done {
			t.Errorf("in pieces of %d: got the end at %d, %t, want %d", size, got, done, len(value))
		}
	}
}

func FuzzStrings(f *testing.F) {
	for _, text := range []string{"", "a", "12345678", "a\"b\\c\n\x00\x7f<&>\u00e9", "\u2028中\xff\xed\xa0\x80", "more than eight bytes, \u2029 twice", `\ud83d\ude00\ud800x\u0041\/`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(text); err != nil {
			t.Fatal(err)
		}
		got := rawjson.AppendString([]byte("x"), text)
		if string(got)+"\n" != "x"+want.String() {
			t.Errorf("%q: got %s, want x%s", text, got, want.Bytes())
		}
		for _, quoted := range []string{string(got[1:]), `"` + text + `"`} { // the second one as escapes, or as no JSON
			var said string
			if json.Unmarshal([]byte(quoted), &said) != nil {
				continue
			}
			v := rawjson.Value(quoted)
			if got := v.AppendText([]byte("x")); string(got) != "x"+said {
				t.Errorf("%s: got %q, want %q", quoted, got, said)
			}
			if got := v.Text(); utf8.ValidString(quoted) && string(got) != said {
				t.Errorf("%s: got %q, want %q", quoted, got, said)
			}
		}
	})
}

func TestGet(t *testing.T) {
	const text = ` {"a":{"b":[1,{"c":"x\u00e9"}],"b\u0062":null},"d":1,"d":2,"e":{"x":1},"e":{"y":2},"f.g":3,"":{"":4},"n":null} `
	for path, want := range map[string]string{
		"a.b": `[1,{"c":"x\u00e9"}]`, "a.b.0": "1", "a.b.1.c": `"x\u00e9"`, "a.bb": "null", "d": "2", "e.y": "2", "e.x": "", ".": "4", "n": "null",
		"a.b.2": "", "a.b.-1": "", "a.b.x": "", "a.b.0.x": "", "a.c": "", "z": "", "f.g": "", "d.x": "", "n.x": "",
	} {
		if got := rawjson.Get([]byte(text), path); string(got) != want || (got == nil) != (want == "") {
			t.Errorf("%q: got %q, want %q", path, got, want)
		}
	}
	if got := rawjson.Member([]byte(text), "f.g"); string(got) != "3" {
		t.Errorf("got %q, want 3", got)
	}
	for _, text := range []string{"[1]", `["a"]`, `{"a":}`, `{"a"}`, `"a"`, ""} {
		if got := rawjson.Member([]byte(text), "a"); got != nil {
			t.Errorf("got %q in %s, want nothing", got, text)
		}
	}
	for text, want := range map[string]string{`"x\n"`: "x\n", `null`: "", ``: "", `-1.0`: "-1.0", `true`: "true", `{"a":"b"}`: `{"a":"b"}`, `"`: ""} {
		if got := rawjson.Value(text).String(); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

// White space is found wherever it stands, in values of every length.
func TestAppendCompactOfEveryLength(t *testing.T) {
	for length := range 40 {
		for _, space := range []string{" ", "\t", "\r", "\n"} {
			value := `["` + strings.Repeat("x", length) + `",` + space + `0]`
			want := strings.Replace(value, space, "", 1)
			if got := rawjson.AppendCompact(nil, []byte(value)); string(got) != want {
				t.Errorf("%q: got %s, want %s", value, got, want)
			}
		}
	}
}

func TestWalkAllocatesNothing(t *testing.T) {
	text := []byte(`{"a":{"b":[1,{"c":"x"}],"d":"a longer text of more than 32 bytes"},"e":-1.5}`)
	dst := make([]byte, 0, 1<<10)
	if n := testing.AllocsPerRun(10, func() {
		for _, v := range rawjson.Members(text) {
			v.Text()
		}
		if rawjson.Get(text, "a.b.1.c") == nil {
			t.Error("got no value")
		}
		dst = rawjson.AppendString(rawjson.AppendCompact(dst[:0], text), "a\"")
	}); n != 0 {
		t.Errorf("got %v allocations, want none", n)
	}
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
