package stream

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestHelloRoundTrip(t *testing.T) {
	h := Hello{Producer: "pod-1/web_hook:8.Z", Next: 1<<63 - 1}
	line := string(h.Append(nil))
	want := `{"docket":{"version":1,"producer":"pod-1/web_hook:8.Z","next":9223372036854775807}}` + "\n"
	if line != want {
		t.Fatalf("line: got %q, want %q", line, want)
	}
	got, err := ParseHello([]byte(strings.TrimSuffix(line, "\n")))
	if err != nil || got != h {
		t.Errorf("parsed: got %+v, %v, want %+v", got, err, h)
	}
	if !IsHello([]byte(line)) {
		t.Error("IsHello: got false, want true")
	}
}

func TestParseHello(t *testing.T) {
	const notHello = "not a hello"
	producer := func(n int) string {
		return `{"docket":{"version":1,"producer":"` + strings.Repeat("p", n) + `","next":1}}`
	}
	padded := func(n int) string {
		line := `{"docket":{"version":1,"producer":"p","next":1}}`
		return line + strings.Repeat(" ", n-len(line))
	}
	for name, test := range map[string]struct {
		line string
		want string // the error, a part of it; empty for none
	}{
		"as written":              {`{"docket":{"version":1,"producer":"p","next":1}}`, ""},
		"other order":             {`{"docket":{"next":7,"producer":"p","version":1}}`, ""},
		"white space":             {" { \"docket\" : {\t\"version\" :1 ,\"producer\":\"p\",\"next\": 1 } }\r", ""},
		"unknown member":          {`{"docket":{"version":1,"producer":"p","next":1,"compress":{"a":[1]}}}`, ""},
		"longest producer":        {producer(128), ""},
		"longest line":            {padded(MaxHello), ""},
		"escaped producer":        {`{"docket":{"version":1,"producer":"\u0070","next":1}}`, ""},
		"version 2":               {`{"docket":{"version":2}}`, "version 2 is not supported, use version 1"},
		"version as text":         {`{"docket":{"version":"1","producer":"p","next":1}}`, "version (a text) is not supported"},
		"version 1.0":             {`{"docket":{"version":1.0,"producer":"p","next":1}}`, "version 1.0 is not supported"},
		"version twice":           {`{"docket":{"version":1,"version":1,"producer":"p","next":1}}`, "version occurs 2 times"},
		"version in capitals":     {`{"docket":{"VERSION":1,"producer":"p","next":1}}`, "version is missing"},
		"no version":              {`{"docket":{}}`, "version is missing"},
		"no producer":             {`{"docket":{"version":1,"next":1}}`, "producer is missing"},
		"empty producer":          {`{"docket":{"version":1,"producer":"","next":1}}`, "must not be empty"},
		"producer a number":       {`{"docket":{"version":1,"producer":7,"next":1}}`, "producer must be a string, not 7"},
		"producer null":           {`{"docket":{"version":1,"producer":null,"next":1}}`, "producer must be a string, not null"},
		"producer too long":       {producer(129), "at most 128 bytes, not 129"},
		"producer with a space":   {`{"docket":{"version":1,"producer":"a b","next":1}}`, `has ' ' at byte 2`},
		"producer not ASCII":      {`{"docket":{"version":1,"producer":"é","next":1}}`, "must consist of"},
		"no next":                 {`{"docket":{"version":1,"producer":"p"}}`, "next is missing"},
		"next 0":                  {`{"docket":{"version":1,"producer":"p","next":0}}`, "at least 1, not 0"},
		"next negative":           {`{"docket":{"version":1,"producer":"p","next":-1}}`, "at least 1, not -1"},
		"next 1.5":                {`{"docket":{"version":1,"producer":"p","next":1.5}}`, "at least 1, not 1.5"},
		"next 1e3":                {`{"docket":{"version":1,"producer":"p","next":1e3}}`, "at least 1, not 1e3"},
		"next as text":            {`{"docket":{"version":1,"producer":"p","next":"1"}}`, "at least 1, not (a text)"},
		"next null":               {`{"docket":{"version":1,"producer":"p","next":null}}`, "at least 1, not null"},
		"next too large":          {`{"docket":{"version":1,"producer":"p","next":9223372036854775808}}`, "at least 1"},
		"next twice":              {`{"docket":{"version":1,"producer":"p","next":1,"next":2}}`, "next occurs 2 times"},
		"cut short":               {`{"docket":{"version":1,"producer":"p"`, "not valid JSON"},
		"something after it":      {`{"docket":{"version":1,"producer":"p","next":1}} x`, "not valid JSON"},
		"too long":                {padded(MaxHello + 1), "longer than 4096 bytes"},
		"too long and cut short":  {`{"docket":{"x":"` + strings.Repeat("a", MaxHello), "longer than 4096 bytes"},
		"a record":                {`{"a":1}`, notHello},
		"a record about docket":   {`{"docket":"x"}`, notHello},
		"other members beside it": {`{"docket":{"version":1,"producer":"p","next":1},"kind":"x"}`, notHello},
		"docket twice":            {`{"docket":{"version":1},"docket":{"version":1}}`, notHello},
		"docket in capitals":      {`{"Docket":{"version":1,"producer":"p","next":1}}`, notHello},
		"an array":                {`["docket"]`, notHello},
		"nothing":                 {``, notHello},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseHello([]byte(test.line))
			switch {
			case test.want == "" && err != nil:
				t.Errorf("got error %q, want none", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got error %v, want %q", err, test.want)
			case (test.want == notHello) != errors.Is(err, ErrNotHello):
				t.Errorf("got %v: ErrNotHello only for ordinary lines", err)
			}
		})
	}
}

func TestIsHello(t *testing.T) {
	for line, want := range map[string]bool{
		`{"docket":{"version":1,"producer":"p","next":2}}`:                true,
		` {"docket" : {"version":99}} `:                                   true,
		`{"docket":{}}`:                                                   false,
		`{"docket":{"version":1}`:                                         false,
		`{"docket":{"version":1},"a":2}`:                                  false,
		`{"docket":1}`:                                                    false,
		`{"a":{"docket":{"version":1}}}`:                                  false,
		`{"docket":{"version":1,"x":"` + strings.Repeat("a", 4096) + `}}`: false,
		``:  false,
		`{`: false,
	} {
		if got := IsHello([]byte(line)); got != want {
			t.Errorf("IsHello(%.60s): got %t, want %t", line, got, want)
		}
	}
}

func TestReplies(t *testing.T) {
	for line, want := range map[string]Reply{
		`{"docket":{"version":1,"acked":0}}`: Answer{0},
		`{"ack":18}`:                         Ack{Through: 18},
		`{"refused":{"seq":3,"reason":"InvalidJSON","detail":"a \"quote\" <b> é"}}`: Refused{3, "InvalidJSON", `a "quote" <b> é`},
		`{"refused":{"seq":3,"reason":"TooLarge"}}`:                                 Refused{3, "TooLarge", ""},
		`{"docket":{"version":1,"error":"broken hello: next must not be \n"}}`:      Closing{"broken hello: next must not be \n"},
	} {
		if got := string(want.Append([]byte("before"))); got != "before"+line+"\n" {
			t.Errorf("append %#v: got %q, want %q", want, got, "before"+line+"\n")
		}
		if got, err := ParseReply([]byte(line)); err != nil || got != want {
			t.Errorf("parse %s: got %#v, %v, want %#v", line, got, err, want)
		}
	}
}

func TestParseReplyTolerates(t *testing.T) {
	for line, want := range map[string]Reply{
		`{"ack":2,"at":"12:00"}`:                               Ack{Through: 2},
		`{"ack":9223372036854775807}` + "\n":                   Ack{Through: 1<<63 - 1},
		` {"ack": 2}`:                                          Ack{Through: 2},
		`{"docket":{"version":1,"acked":4,"queue":"x"}}`:       Answer{4},
		`{"docket":{"version":2,"error":"no version 1"}}`:      Closing{"no version 1"},
		`{"refused":{"seq":1,"reason":"SomethingNew"}}` + "\r": Refused{1, "SomethingNew", ""},
	} {
		if got, err := ParseReply([]byte(line)); err != nil || got != want {
			t.Errorf("%s: got %#v, %v, want %#v", line, got, err, want)
		}
	}
}

func TestParseReplyRefuses(t *testing.T) {
	for line, want := range map[string]string{
		``:                                   "not valid JSON",
		`[1]`:                                "not a JSON object",
		`{}`:                                 "not a message",
		`{"Ack":1}`:                          "not a message",
		`{"ack":1.5}`:                        "ack must be a whole number, not 1.5",
		`{"ack":-1}`:                         "ack must be a whole number, not -1",
		`{"ack":9223372036854775808}`:        "ack must be a whole number, not 9223372036854775808",
		`{"ack":}`:                           "not valid JSON",
		`{"ack":01}`:                         "not valid JSON",
		`{"ack":+1}`:                         "not valid JSON",
		`{"ack":1`:                           "not valid JSON",
		`{"ack":1}}`:                         "not valid JSON",
		`{"ack":1}` + "\n\n1":                "not valid JSON",
		`{"ack":1,"ack":2}`:                  "ack occurs 2 times",
		`{"refused":3}`:                      "refused: not a JSON object",
		`{"refused":{"reason":"TooLarge"}}`:  "seq is missing",
		`{"refused":{"seq":1}}`:              "reason is missing",
		`{"docket":{"acked":1}}`:             "version is missing",
		`{"docket":{"version":2,"acked":1}}`: "version 2 is not supported",
		`{"docket":{"version":1}}`:           "acked is missing",
	} {
		if got, err := ParseReply([]byte(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %#v, %v, want error %q", line, got, err, want)
		}
	}
}

func TestTextsAreBounded(t *testing.T) {
	for name, text := range map[string]string{
		"escapes":   strings.Repeat("\x01", 1<<20),
		"not UTF-8": strings.Repeat("\xff", 1<<20),
		"runes":     strings.Repeat("é", 1<<20),
	} {
		line := Refused{Seq: 1<<63 - 1, Reason: text, Detail: text}.Append(nil)
		if len(line) > MaxReply {
			t.Errorf("%s: got a line of %d bytes, want at most %d", name, len(line), MaxReply)
		}
		if !json.Valid(line) || !utf8.Valid(line) {
			t.Errorf("%s: got %.80q..., want valid JSON", name, line)
		}
	}
}

func FuzzParseHello(f *testing.F) {
	f.Add([]byte(`{"docket":{"version":1,"producer":"p","next":1}}`))
	f.Add([]byte(`{"docket":{"version":1,"version":1}}`))
	f.Add([]byte(" {\t\"docket\" : {\"next\":1.5}} "))
	f.Add([]byte(`{"docket":{"version":1},"a":[{}]}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		before := bytes.Clone(line)
		h, err := ParseHello(line)
		is := IsHello(line)
		if !bytes.Equal(line, before) {
			t.Fatal("the line was changed")
		}
		if err != nil {
			if is && errors.Is(err, ErrNotHello) {
				t.Fatal("IsHello, but ParseHello says it is not")
			}
			return
		}
		if !is || !json.Valid(line) || len(line) > MaxHello || h.Next == 0 || CheckProducer(h.Producer) != nil {
			t.Fatalf("took %q for %+v (IsHello %t)", line, h, is)
		}
		again, err := ParseHello(bytes.TrimSuffix(h.Append(nil), []byte("\n")))
		if err != nil || again != h {
			t.Fatalf("written and read again: got %+v, %v, want %+v", again, err, h)
		}
	})
}

func FuzzParseReply(f *testing.F) {
	f.Add([]byte(`{"docket":{"version":1,"acked":0}}`))
	f.Add([]byte(`{"ack":18}`))
	f.Add([]byte(`{"refused":{"seq":3,"reason":"InvalidJSON","detail":"d"}}`))
	f.Add([]byte(`{"docket":{"version":1,"error":"e"}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := ParseReply(line)
		if err != nil {
			return
		}
		out := r.Append(nil)
		again, err := ParseReply(bytes.TrimSuffix(out, []byte("\n")))
		if err != nil {
			t.Fatalf("%#v written as %q: %v", r, out, err)
		}
		if twice := again.Append(nil); !bytes.Equal(twice, out) && len(out) < maxText {
			t.Fatalf("got %q, want %q", twice, out)
		}
	})
}
