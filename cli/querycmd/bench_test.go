package querycmd

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-export/docket/sinks/filesink/verify"
)

// BenchmarkSearch searches four files of records of all engines; "read" is what there is to be
// had: the same files decompressed, one after the other, and their lines counted.
func BenchmarkSearch(b *testing.B) {
	text := manyRecords(b, 16<<20)
	for _, suffix := range []string{"", ".gz", ".zst"} {
		files := map[string]string{}
		for i := range 4 {
			files[fmt.Sprintf("decisions-%d.ndjson%s", i, suffix)] = text
		}
		c := openExport(b, writeExport(b, files))
		b.Run("read"+suffix, func(b *testing.B) {
			b.SetBytes(int64(4 * len(text)))
			buffer := make([]byte, blockSize)
			for b.Loop() {
				for i := range c.Files {
					countLines(b, c, &c.Files[i], buffer)
				}
			}
		})
		for name, s := range map[string]*search{
			"text":     {form: ndjson, filter: compiled(b, `normalized.decision == "deny" && normalized.resource.namespace == "team-a"`), from: day(1), to: day(30)},
			"decision": {form: ndjson, filter: compiled(b, `normalized.decision == "deny"`)},
			"time":     {form: ndjson, from: day(1), to: day(30)},
			"all":      {form: ndjson},
			"csv":      {form: csv},
		} {
			b.Run(name+suffix, func(b *testing.B) {
				b.SetBytes(int64(4 * len(text)))
				b.ReportAllocs()
				for b.Loop() {
					w := writer{w: io.Discard, form: s.form}
					if err := s.run(b.Context(), partsOf(c, nil), w.write); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func countLines(b *testing.B, c *verify.Contents, f *verify.File, buffer []byte) (n int) {
	r, err := c.Reader(f, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	for {
		got, err := r.Read(buffer)
		n += bytes.Count(buffer[:got], []byte{'\n'})
		if err != nil {
			return n
		}
	}
}

// manyRecords are records of all engines, each with names of its own.
func manyRecords(t testing.TB, size int) string {
	t.Helper()
	files, err := filepath.Glob("../../testdata/records/*.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")...)
	}
	dice := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	for b.Len() < size {
		line := lines[dice.IntN(len(lines))]
		fmt.Fprintf(&b, `%s,"uid":"%016x%016x","owner":"team-%c"}`+"\n", strings.TrimSuffix(line, "}"), dice.Uint64(), dice.Uint64(), 'a'+rune(dice.IntN(20)))
	}
	return b.String()
}
