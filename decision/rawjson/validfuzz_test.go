package rawjson

import (
	"bytes"
	"testing"
)

func FuzzValid(f *testing.F) {
	for _, line := range records(f) {
		f.Add(line)
	}
	for _, line := range []string{
		``, `0`, `-0.5e+3`, `01`, `1.`, `"`, `"\u00e9\n"`, `"\ud800"`, `"\u12g4"`, "\"\x1f\"", "\"\xed\xa0\x80\"", `[1,]`, `{"a":1,}`, `{"a":tru}`, `[{}]`, `[}`, `nul`, "\ufeff{}",
		`[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		compare(t, line)
		// Within a longer line, so that it meets the end of a block elsewhere.
		compare(t, bytes.Join([][]byte{[]byte(`{"a":"0123456789abcdefghijklmnopqrstuvwxyz","b":[`), line, []byte(`,"`), line, []byte(`"]}`)}, nil))
	})
}
