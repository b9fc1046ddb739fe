package rawjson

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// The cost of a common record, and of one that has escapes only, beside the standard library.
func BenchmarkValid(b *testing.B) {
	for name, line := range map[string][]byte{"record": records(b)[2], "escapes": []byte(`"` + strings.Repeat(`\"\u00e9`, 128) + `"`)} {
		b.Run(name+"/rawjson", func(b *testing.B) {
			b.SetBytes(int64(len(line)))
			for b.Loop() {
				KindOf(line)
			}
		})
		b.Run(name+"/stdlib", func(b *testing.B) {
			b.SetBytes(int64(len(line)))
			for b.Loop() {
				_ = utf8.Valid(line) && json.Valid(line)
			}
		})
	}
}
