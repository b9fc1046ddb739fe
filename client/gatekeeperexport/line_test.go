package gatekeeperexport

import (
	"encoding/json"
	"testing"

	"github.com/docket-export/docket/decision"
)

func TestEncode(t *testing.T) {
	type message struct {
		Message string `json:"message,omitempty"`
		Details any    `json:"details,omitempty"`
	}
	tests := map[string]struct {
		data any
		want string
	}{
		"struct":               {message{Message: "<b> & c"}, `{"message":"\u003cb\u003e \u0026 c"}`},
		"pointer":              {&message{Message: "m"}, `{"message":"m"}`},
		"details of any shape": {message{Details: map[string]any{"n": json.Number("12345678901234567890")}}, `{"details":{"n":12345678901234567890}}`},
		"line break in text":   {message{Message: "a\nb"}, `{"message":"a\nb"}`},
		"map":                  {map[string]any{"b": 1, "a": "<"}, `{"a":"\u003c","b":1}`},
		"raw":                  {json.RawMessage(`{ "b":1.10, "a":"<\u003c" , "b":2}`), `{ "b":1.10, "a":"<\u003c" , "b":2}`},
		"bytes":                {[]byte(" {\"a\":1}\r"), " {\"a\":1}\r"},
		"raw on lines":         {json.RawMessage("{\n  \"b\": 1.10,\r\n  \"a\": \"<\"\n}\n"), `{"b":1.10,"a":"<"}`},
		"not of Gatekeeper":    {json.RawMessage(`{"message":{"text":1},"enforcementActions":"x"}`), `{"message":{"text":1},"enforcementActions":"x"}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := encode(tt.data)
			if err != nil {
				t.Fatal(err)
			}
			if string(got.line) != tt.want {
				t.Errorf("got  %q\nwant %q", got.line, tt.want)
			}
		})
	}
}

func TestEncodeRefuses(t *testing.T) {
	tests := map[string]struct {
		data any
		want string
	}{
		"nil":              {nil, "<nil> is not a JSON object"},
		"text":             {"text", "string is not a JSON object"},
		"array":            {json.RawMessage(` [1]`), "json.RawMessage is not a JSON object"},
		"nothing":          {json.RawMessage{}, "json.RawMessage is not a JSON object"},
		"blank":            {[]byte(" \t"), "[]uint8 is not a JSON object"},
		"torn":             {json.RawMessage(`{"a":1`), "unexpected end of JSON input"},
		"torn on lines":    {json.RawMessage("{\n\"a\":1"), "unexpected end of JSON input"},
		"two":              {json.RawMessage(`{} {}`), "invalid character '{' after top-level value"},
		"cannot be JSON":   {make(chan int), "json: unsupported type: chan int"},
		"raw within is no": {map[string]any{"a": json.RawMessage(`{`)}, "json: error calling MarshalJSON for type json.RawMessage: unexpected end of JSON input"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got, err := encode(tt.data); err == nil || err.Error() != tt.want {
				t.Errorf("got %q and error %v, want error %s", got.line, err, tt.want)
			}
		})
	}
}

func TestClassify(t *testing.T) {
	tests := map[string]struct {
		line    string
		want    decision.Decision
		endsRun bool
	}{
		"deny":             {line: `{"enforcementAction":"deny"}`, want: decision.Deny},
		"warn":             {line: `{"enforcementAction":"warn"}`, want: decision.Warn},
		"dryrun":           {line: `{"enforcementAction":"dryrun"}`, want: decision.DryRun},
		"of the operator":  {line: `{"enforcementAction":"page"}`, want: ""},
		"none":             {line: `{}`, want: ""},
		"scoped strictest": {line: `{"enforcementAction":"scoped","enforcementActions":["dryrun","warn"]}`, want: decision.Warn},
		"scoped deny":      {line: `{"enforcementAction":"scoped","enforcementActions":["dryrun","deny"]}`, want: decision.Deny},
		"scoped dryrun":    {line: `{"enforcementAction":"scoped","enforcementActions":["dryrun"]}`, want: decision.DryRun},
		"scoped unknown":   {line: `{"enforcementAction":"scoped","enforcementActions":["dryrun","page"]}`, want: ""},
		"scoped nowhere":   {line: `{"enforcementAction":"scoped"}`, want: ""},
		"not scoped":       {line: `{"enforcementAction":"warn","enforcementActions":["deny"]}`, want: decision.Warn},
		"start of a run":   {line: `{"id":"x","message":"audit is started"}`, want: ""},
		"end of a run":     {line: `{"id":"x","message":"audit is completed"}`, want: "", endsRun: true},
		"violation that says so": {
			line: `{"eventType":"violation_audited","message":"audit is completed","enforcementAction":"warn"}`, want: decision.Warn,
		},
		"field of another type": {line: `{"enforcementAction":"warn","message":1}`, want: ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := classify([]byte(tt.line))
			if err != nil {
				t.Fatal(err)
			}
			if got.decision != tt.want || got.endsRun != tt.endsRun {
				t.Errorf("got decision %q, ends run %t, want %q, %t", got.decision, got.endsRun, tt.want, tt.endsRun)
			}
		})
	}
}
