package runs

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/docket-export/docket/decision/rawjson"
)

func FuzzLines(f *testing.F) {
	for _, seed := range []string{"", "\n", "a", "a\nb\r\n\n", "\r\r\n", strings.Repeat("x", 30) + "\ny\n" + strings.Repeat("z", 31)} {
		f.Add([]byte(seed), 8)
	}
	f.Fuzz(func(t *testing.T, text []byte, limit int) {
		limit = min(max(limit, 1), 64)
		for _, r := range []io.Reader{bytes.NewReader(text), iotest.OneByteReader(bytes.NewReader(text)), iotest.DataErrReader(bytes.NewReader(text))} {
			lines := newLineReader(r, 3, limit)
			for want := range bytes.Lines(text) {
				whole := bytes.HasSuffix(want, []byte("\n"))
				want = bytes.TrimSuffix(want, []byte("\n"))
				got, err := lines.next()
				if err != nil {
					t.Fatalf("got %v, want the line %q", err, want)
				}
				trimmed := bytes.TrimSuffix(want, []byte("\r"))
				switch {
				case got.whole != whole:
					t.Fatalf("%q: got whole: %v, want %v", want, got.whole, whole)
				case len(trimmed) <= limit && (got.length != 0 || !bytes.Equal(got.text, trimmed)):
					t.Fatalf("got %+v, want %q", got, trimmed)
				case len(trimmed) > limit && (got.length < int64(len(trimmed)) || got.length > int64(len(want)) || !bytes.HasPrefix(want, got.text) || len(got.text) == 0):
					t.Fatalf("got %+v, want the beginning of %q", got, want)
				}
			}
			if _, err := lines.next(); !errors.Is(err, io.EOF) {
				t.Fatalf("got %v at the end, want io.EOF", err)
			}
		}
	})
}

// A line without an end costs no more memory than one that may be sent.
func TestEndlessLine(t *testing.T) {
	const size, maxRecord = 100 << 20, 1 << 20
	lines := newLineReader(io.LimitReader(endless{}, size), size, maxRecord)
	l, err := lines.next()
	if err != nil || l.length != size || len(l.text) != maxPrefix || l.whole {
		t.Errorf("got a line of %d bytes with %d held, %v; want %d with %d", l.length, len(l.text), err, size, maxPrefix)
	}
	if got, limit := cap(lines.buf), 4*maxRecord; got > limit {
		t.Errorf("got a buffer of %d bytes, want at most %d", got, limit)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

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
