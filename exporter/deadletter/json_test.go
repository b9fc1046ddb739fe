package deadletter

import (
	"encoding/json"
	"testing"
)

// The record goes through JSON byte for byte, white space around it included.
func TestWithRecord(t *testing.T) {
	for name, record := range map[string]string{
		"plain":       `{"a":1}`,
		"white space": "\t {\"a\" : 1.50 }\r",
		"nested":      `{"a":{"x":0,"record":{}}}`,
		"not ASCII":   `{"ü":"\u00fc"}`,
	} {
		t.Run(name, func(t *testing.T) {
			l := testLetter(7, record)
			l.Reason, l.Answer = `says ","record":{}} of it`, `\`
			want := l.Summary("siem")
			text, err := want.WithRecord(l.Record)
			if err != nil {
				t.Fatal(err)
			}
			if !json.Valid(text) {
				t.Errorf("got %s, want JSON", text)
			}
			for _, end := range []string{"", "\n"} {
				s, got, err := ParseWithRecord(append(text, end...))
				if s != want || string(got) != record || err != nil {
					t.Errorf("got %+v, %q, %v, want %+v, %q", s, got, err, want, record)
				}
			}
		})
	}
	for _, text := range []string{"", "{}", `{"record":1`, `[],"record":{}}`} {
		if _, _, err := ParseWithRecord([]byte(text)); err == nil {
			t.Errorf("%q: got no error, want one", text)
		}
	}
}
