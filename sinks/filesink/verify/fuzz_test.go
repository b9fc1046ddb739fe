package verify

import (
	"bytes"
	"crypto/sha256"
	"os"
	"strings"
	"testing"

	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// FuzzManifest puts any manifest in place of a signed one, and wants a break unless
// its lines are the same: nobody without the key can write another one that passes.
func FuzzManifest(f *testing.F) {
	// The export is made anew by every process of the fuzzer; it is always the same.
	b := &builder{t: &testing.T{}, dir: f.TempDir(), last: map[string]uint64{}}
	b.chain.Key = testKey(1)
	standard(b, "")
	original, err := os.ReadFile(b.path(manifest.FileName))
	if err != nil {
		f.Fatal(err)
	}
	lines := strings.SplitAfter(string(original), "\n")
	f.Add(original)
	f.Add(original[:len(original)-1])
	f.Add([]byte(strings.Join(lines[1:], "")))
	f.Add([]byte(lines[1] + lines[0]))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(b.path(manifest.FileName), data, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := Run(t.Context(), b.dir, Options{PublicKeys: publicKeys(1)})
		if err != nil {
			t.Fatal(err)
		}
		whole := data[:bytes.LastIndexByte(data, '\n')+1]
		if same := sha256.Sum256(whole) == sha256.Sum256(original); same != (r.Break == nil) {
			t.Fatalf("got %+v, want a break: %t", r.Break, !same)
		}
	})
}
