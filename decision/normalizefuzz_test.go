package decision_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"unicode/utf8"

	"github.com/docket-export/docket/decision"
)

// FuzzNormalize: a record has the form that it has after encoding/json has read it into a
// map and written it, whatever its escapes, its white space and its repeated names.
func FuzzNormalize(f *testing.F) {
	for _, dir := range []string{"../testdata/records", "testdata/made"} {
		files, err := filepath.Glob(dir + "/*.ndjson")
		if err != nil || len(files) == 0 {
			f.Fatalf("got no records in %s, %v", dir, err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			for line := range bytes.Lines(text) {
				f.Add(line)
			}
		}
	}
	f.Add([]byte(`{"auditID":"1","stage":"a","us\u0065r":{"username":"\ud83d\ude00\ud800\u00e9\/"},"user":{}}`))
	f.Add([]byte(`{"decision_id":"1","input":{"request":{"uid":"1","kind":{"kind":"a"}},"request":null},"result":{"allow":true},"result":[1]}`))
	f.Add([]byte(" {\n\"decision_id\" : \"a\\\\\" ,\t\"error\":{\"message\":\"\xff\\\"\" }} "))
	f.Fuzz(func(t *testing.T, record []byte) {
		got, _ := decision.Normalize(record)
		dec := json.NewDecoder(bytes.NewReader(record))
		dec.UseNumber()
		var members map[string]any
		if !json.Valid(record) || dec.Decode(&members) != nil {
			return
		}
		written, err := json.Marshal(members)
		if err != nil {
			t.Fatal(err)
		}
		if want, _ := decision.Normalize(written); got != want {
			t.Errorf("%s:\ngot  %+v\nwant %+v", record, got, want)
		}
		for _, name := range decision.NormalizedFields() {
			if text := got.Field(name); !utf8.ValidString(text) {
				t.Errorf("%s is not UTF-8: %q", name, text)
			}
		}
	})
}
