package httpsource

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
)

const cutLimit = 64

// cutAll returns the events of body, and how it ends.
func cutAll(body io.Reader, member string, chunk int) (events []string, tooLong []int64, err error) {
	c := newCutter(body, member, cutLimit, make([]byte, chunk))
	for {
		event, length, err := c.next(nil)
		if errors.Is(err, io.EOF) {
			return events, tooLong, nil
		}
		if err != nil {
			return events, tooLong, err
		}
		if length > 0 {
			tooLong = append(tooLong, length)
		}
		events = append(events, string(event))
	}
}

func TestCutter(t *testing.T) {
	t.Parallel()
	long := `{"long":"` + strings.Repeat("x", 2*cutLimit) + `"}`
	tests := map[string]struct {
		body, member string
		want         string // the events, joined by a space of their own: "|"
		err          string // how it must end; empty: well
	}{
		"none":                      {"[]", "", "", ""},
		"none with space":           {" [ \r\n\t] \n", "", "", ""},
		"one":                       {`[{"a":1}]`, "", `{"a":1}`, ""},
		"spaces around":             {" [ {\"a\": 1} , {} ] ", "", `{"a": 1}|{}`, ""},
		"newlines between tokens":   {"[{\n\"a\":\r\n1\n}]", "", "{ \"a\":\r 1 }", ""},
		"a newline in a string":     {"[{\"a\":\"1\n2\"}]", "", "{\"a\":\"1\r2\"}", ""},
		"an escaped raw newline":    {"[{\"a\":\"1\\\n2\"}]", "", "{\"a\":\"1\\\r2\"}", ""},
		"brackets in a string":      {`[{"a":"]}[{,"}]`, "", `{"a":"]}[{,"}`, ""},
		"escaped quotes":            {`[{"a":"\\\"]"},{"b\\":"\""}]`, "", `{"a":"\\\"]"}|{"b\\":"\""}`, ""},
		"events that are no object": {`[1,"two",null,[3],tr,-]`, "", `1|"two"|null|[3]|tr|-`, ""},
		"a string at the end":       {`["]"]`, "", `"]"`, ""},
		"too long":                  {"[1," + long + ",2]", "", "1|" + long[:cutLimit] + "|2", ""},
		"empty":                     {"", "", "", "ends too early"},
		"white space":               {" \n", "", "", "ends too early"},
		"an object":                 {`{"a":1}`, "", "", "must begin with '[', not '{'"},
		"a byte order mark":         {"\ufeff[1]", "", "1", ""},
		"a mark before an object":   {"\ufeff{\"items\":[1]}", "items", "1", ""},
		"half a byte order mark":    {"\xef\xbb[]", "", "", "begins with half a byte order mark"},
		"a mark and nothing":        {"\ufeff", "", "", "ends too early"},
		"cut off in an event":       {`[{"a":1},{"b`, "", `{"a":1}`, "ends too early"},
		"cut off after an event":    {`[{"a":1}`, "", `{"a":1}`, "ends too early"},
		"cut off in a number":       {`[1`, "", "", "ends too early"},
		"a comma at the end":        {`[1,]`, "", "1", "expected a value, not ']'"},
		"a comma at the beginning":  {`[,1]`, "", "", "expected a value, not ','"},
		"two commas":                {`[1,,2]`, "", "1", "expected a value, not ','"},
		"no comma":                  {`[{}{}]`, "", "{}", "expected a comma or ], not '{'"},
		"a colon":                   {`["a":1]`, "", `"a"`, "expected a comma or ], not ':'"},
		"garbage behind":            {`[1] x`, "", "1", "has text after its end: 'x'"},
		"a second array":            {`[1][2]`, "", "1", "has text after its end: '['"},

		"a list":               {`{"kind":"EventList","metadata":{"items":[0]},"items":[{"a":1},2],"x":[3]}`, "items", `{"a":1}|2`, ""},
		"a list first":         {"{ \"items\" : [ 1 ] } ", "items", "1", ""},
		"an empty list":        {`{"items":[]}`, "items", "", ""},
		"null for a list":      {`{"items":null,"kind":"x"}`, "items", "", ""},
		"two lists":            {`{"items":[1],"items":[2]}`, "items", "1|2", ""},
		"no list":              {`{"kind":"EventList"}`, "items", "", `has no member "items"`},
		"no member":            {`{}`, "items", "", `has no member "items"`},
		"a list that is none":  {`{"items":{}}`, "items", "", `must have an array as "items"`},
		"an array, not a list": {`[1]`, "items", "", "must begin with '{', not '['"},
		"a name without quote": {`{items:[1]}`, "items", "", "expected a name, not 'i'"},
		"a name without colon": {`{"items" [1]}`, "items", "", "expected a colon, not '['"},
		"a list not closed":    {`{"items":[1]`, "items", "1", "ends too early"},
		"members not parted":   {`{"items":[1] "a":2}`, "items", "1", `expected a comma or }, not '"'`},
		"a comma at the close": {`{"items":[1],}`, "items", "1", "expected a name, not '}'"},
		"behind a list":        {`{"items":[1]}]`, "items", "1", "has text after its end: ']'"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for _, chunk := range []int{1, 2, 3, 7, chunkBytes} {
				events, _, err := cutAll(strings.NewReader(tt.body), tt.member, chunk)
				if got := strings.Join(events, "|"); got != tt.want {
					t.Errorf("chunks of %d: got events %q, want %q", chunk, got, tt.want)
				}
				switch {
				case tt.err == "" && err != nil:
					t.Errorf("chunks of %d: got the error %q, want none", chunk, err)
				case tt.err != "" && (err == nil || !strings.HasSuffix(err.Error(), tt.err)):
					t.Errorf("chunks of %d: got the error %v, want %q", chunk, err, tt.err)
				}
			}
		})
	}
}

func TestCutterTooLong(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		size int
		want int64 // the length that is told
	}{
		"at the limit":     {cutLimit, 0},
		"beyond the limit": {cutLimit + 1, cutLimit + 1},
		"far beyond":       {100 * cutLimit, 100 * cutLimit},
	} {
		t.Run(name, func(t *testing.T) {
			body := `[{"a":"` + strings.Repeat("x", tt.size-len(`{"a":""}`)) + `"}]`
			c := newCutter(strings.NewReader(body), "", cutLimit, make([]byte, 16))
			event, length, err := c.next([]byte("before"))
			if err != nil || length != tt.want {
				t.Fatalf("got length %d, error %v, want %d and none", length, err, tt.want)
			}
			if want := "before" + body[1:1+min(tt.size, cutLimit)]; string(event) != want {
				t.Errorf("got %q, want %q", event, want)
			}
		})
	}
}

// FuzzCutter compares the cutter with encoding/json: of a body that is JSON it returns
// the events that encoding/json does, and of one that is not either an error or an event
// that is no JSON.
func FuzzCutter(f *testing.F) {
	for _, seed := range []string{
		`[]`, `[{"a":[1,2,{"b":"]"}]},null,"x\"y"]`, "[{\n\"a\":\"b\\\\\"\r\n}\n]", `[1,2`, `[{"a":]}]`, "[\"a\nb\"]", `[1 2]`, `["\u005d\\"]`, `[[[[[]]]]]`, `[ ,]`, `[{]}`,
	} {
		f.Add([]byte(seed), uint8(3))
	}
	f.Fuzz(func(t *testing.T, body []byte, chunk uint8) {
		var want []json.RawMessage
		whole := json.Unmarshal(body, &want) == nil && want != nil
		c := newCutter(bytes.NewReader(body), "", 1<<20, make([]byte, int(chunk)+1))
		var got [][]byte
		valid := true
		for {
			event, length, err := c.next(nil)
			if err != nil {
				valid = valid && errors.Is(err, io.EOF)
				break
			}
			if length != 0 || len(event) == 0 || bytes.IndexByte(event, '\n') >= 0 {
				t.Fatalf("got event %q of length %d", event, length)
			}
			valid = valid && json.Valid(event)
			got = append(got, event)
		}
		if valid != whole {
			t.Fatalf("body %q: got valid=%v, encoding/json says %v", body, valid, whole)
		}
		if !whole {
			return
		}
		if len(got) != len(want) {
			t.Fatalf("body %q: got %d events, want %d", body, len(got), len(want))
		}
		for i := range want {
			if w := bytes.ReplaceAll(want[i], []byte("\n"), []byte(" ")); !bytes.Equal(got[i], w) {
				t.Fatalf("event %d: got %q, want %q", i, got[i], w)
			}
		}
	})
}
