package verify

import (
	"bytes"
	"crypto/sha256"
	"testing"
)

// BenchmarkRun proves files that lie in memory. BenchmarkHash is what there is to be
// had on one processor.
func BenchmarkRun(b *testing.B) {
	export := &builder{t: &testing.T{}, dir: b.TempDir(), last: map[string]uint64{}}
	export.record = func(string, uint64) string { return `{"text":"` + string(bytes.Repeat([]byte{'x'}, 1000)) + `"}` }
	for range 4 {
		export.add(file{to: export.last[queueA] + 16<<10})
	}
	r, err := Run(b.Context(), export.dir, Options{})
	if err != nil || r.Break != nil {
		b.Fatal(err, r.Break)
	}
	b.SetBytes(r.Bytes)
	for b.Loop() {
		if r, err := Run(b.Context(), export.dir, Options{}); err != nil || r.Break != nil {
			b.Fatal(err, r.Break)
		}
	}
}

func BenchmarkHash(b *testing.B) {
	data := bytes.Repeat([]byte{'x'}, 16<<20)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		sha256.Sum256(data)
	}
}
