package verify

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/filesink/manifest"
)

func TestUntouched(t *testing.T) {
	for _, suffix := range []string{"", ".gz", ".zst"} {
		for _, deep := range []bool{false, true} {
			b := newBuilder(t)
			standard(b, suffix)
			b.add(file{name: "b.ndjson" + suffix, queue: queueB, from: 7, to: 9})
			r := mustRun(t, b.dir, Options{Deep: deep})
			if r.Break != nil {
				t.Fatalf("%q, deep %t: got %+v", suffix, deep, r.Break)
			}
			if r.Lines != 6 || r.Files != 4 || r.Records != 16 || r.RemovedFiles != 1 || r.RemovedRecords != 5 || len(r.Notes) > 0 {
				t.Errorf("%q, deep %t: got %+v, want 6 lines, 4 files of 16 records, 1 of 5 removed, no notes", suffix, deep, r)
			}
			if want := map[sinks.GapReason]uint64{sinks.Filtered: 1, sinks.Dropped: 1}; fmt.Sprint(r.Gaps) != fmt.Sprint(want) {
				t.Errorf("got gaps %v, want %v", r.Gaps, want)
			}
			if want := []Queue{{queueA, 1, 20}, {queueB, 7, 9}}; !slices.Equal(r.Queues, want) {
				t.Errorf("got queues %v, want %v", r.Queues, want)
			}
			if r.Head != b.chain.Previous || !r.LastFinished.Equal(when) {
				t.Errorf("got head %s of %s, want %s of %s", r.Head, r.LastFinished, b.chain.Previous, when)
			}
		}
	}
}

// What is in a compressed file is counted on request only: the bytes are proven
// either way.
func TestDeep(t *testing.T) {
	for _, suffix := range []string{".gz", ".zst"} {
		for name, tt := range map[string]struct {
			edit func(*testing.T, string, []byte) []byte
			want string
		}{
			"a line less":    {func(t *testing.T, name string, _ []byte) []byte { return compress(t, name, []byte("{}\n")) }, " 1 line that"},
			"torn line":      {func(t *testing.T, name string, _ []byte) []byte { return compress(t, name, []byte("{}\n{}")) }, "unexpected EOF"},
			"not compressed": {func(*testing.T, string, []byte) []byte { return []byte(strings.Repeat("{}\n", 9)) }, "invalid"},
			"cut":            {func(_ *testing.T, _ string, data []byte) []byte { return data[:len(data)-4] }, "unexpected EOF"},
			"endless line": {func(t *testing.T, name string, _ []byte) []byte {
				return compressWhole(t, name, slices.Repeat([]byte{'x'}, maxLine+2*bufferSize))
			}, "a line of more than"},
			"endless lines": {func(t *testing.T, name string, _ []byte) []byte {
				return compressWhole(t, name, slices.Repeat([]byte{'\n'}, 1<<20))
			}, " 6 lines that"},
		} {
			t.Run(name+suffix, func(t *testing.T) {
				t.Parallel()
				b := newBuilder(t)
				names := standard(b, suffix)
				forge(b, names[1], func(data []byte) []byte { return tt.edit(t, names[1], data) })
				if r := mustRun(t, b.dir, Options{}); r.Break != nil {
					t.Errorf("not deep: got %+v, want no break", r.Break)
				}
				r := mustRun(t, b.dir, Options{Deep: true})
				want := first(WrongCount, 2, 6, 10)
				want.File = names[1]
				checkBreak(t, r.Break, want)
				if r.Break != nil && !strings.Contains(" "+r.Break.Found, tt.want) {
					t.Errorf("got %q found, want %q in it", r.Break.Found, tt.want)
				}
			})
		}
	}
}

// forge changes a file and writes its hash and the chain anew.
func forge(b *builder, name string, edit func([]byte) []byte) {
	b.t.Helper()
	b.change(name, edit)
	b.chainAnew(nil, func(lines []*manifest.Line) []*manifest.Line {
		for _, l := range lines {
			if l.Entry != nil && l.Entry.Name == name {
				data := b.read(name)
				l.Entry.SHA256, l.Entry.Bytes = sumOf(data), int64(len(data))
			}
		}
		return lines
	})
}
