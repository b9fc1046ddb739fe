package querycmd

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/docket-export/docket/exporter/filter"
	"github.com/docket-export/docket/exporter/queue/inspect"
	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/internal/testleak"
	"github.com/docket-export/docket/sinks/filesink/verify"
)

func TestMain(m *testing.M) { testleak.Main(m) }

// found runs s over parts and returns what it writes.
func found(t *testing.T, s *search, parts []part) string {
	t.Helper()
	var b bytes.Buffer
	s.out.w = bufio.NewWriter(&b)
	if err := s.run(t.Context(), parts); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func compiled(t testing.TB, when string) *filter.Filter {
	t.Helper()
	f, err := filter.Compile(when)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// writeExport writes files of an export without a manifest, by their texts.
func writeExport(t testing.TB, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		var b bytes.Buffer
		switch filepath.Ext(name) {
		case ".gz":
			w := gzip.NewWriter(&b)
			w.Write([]byte(text))
			w.Close()
		case ".zst":
			w, err := zstd.NewWriter(&b)
			if err != nil {
				t.Fatal(err)
			}
			w.Write([]byte(text))
			w.Close()
		default:
			b.WriteString(text)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func openExport(t testing.TB, dir string) *verify.Contents {
	t.Helper()
	c, err := verify.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// The records that are found are those that each by itself is asked for, in their order,
// whatever the files are like.
func TestSearchModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		dice := rand.New(rand.NewPCG(seed, 0))
		files := map[string]string{}
		var want strings.Builder
		for file := range 1 + dice.IntN(20) {
			var text strings.Builder
			for n := range dice.IntN(3000) {
				size := dice.IntN(400)
				if dice.IntN(1000) == 0 {
					size = dice.IntN(3 * (256 << 10))
				}
				line := fmt.Sprintf(`{"file":%d,"n":%d,"kind":"k%d","text":%q}`+"\n", file, n, dice.IntN(5), strings.Repeat("x", size))
				text.WriteString(line)
				if strings.Contains(line, `"kind":"k3"`) {
					want.WriteString(line)
				}
			}
			files[fmt.Sprintf("decisions-%03d.ndjson%s", file, []string{"", ".gz", ".zst"}[dice.IntN(3)])] = text.String()
		}
		var p verify.Progress
		c := openExport(t, writeExport(t, files))
		s := search{filter: compiled(t, `record.kind == "k3"`)}
		if got := found(t, &s, partsOf(c, &p)); got != want.String() {
			t.Fatalf("seed %d: got %d bytes, want %d, or others", seed, len(got), want.Len())
		}
		if n := strings.Count(want.String(), "\n"); s.found.Load() != int64(n) || p.Done.Load() != c.Bytes() || len(s.report.problems) > 0 {
			t.Errorf("seed %d: got %d found, %d read of %d, %q, want %d found, all read", seed, s.found.Load(), p.Done.Load(), c.Bytes(), s.report.problems, n)
		}
	}
}

// What cannot be read is told, what is before it and in other files is found.
func TestSearchDamage(t *testing.T) {
	for name, tt := range map[string]struct {
		file   string
		damage func(path string) error
		want   string
		told   string
	}{
		"none":            {file: "decisions-2.ndjson", want: "1234"},
		"torn":            {file: "decisions-2.ndjson", damage: cut(1), want: "124", told: "decisions-2.ndjson: the file ends within a line"},
		"torn, active":    {file: "decisions-active.ndjson", damage: cut(1), want: "142"},
		"gzip, cut":       {file: "decisions-2.ndjson.gz", damage: cut(9), want: "1234", told: "decisions-2.ndjson.gz: "},
		"gzip, active":    {file: "decisions-active.ndjson.gz", damage: cut(9), want: "1423"},
		"zstd, cut":       {file: "decisions-2.ndjson.zst", damage: cut(9), want: "14", told: "decisions-2.ndjson.zst: "},
		"zstd, active":    {file: "decisions-active.ndjson.zst", damage: cut(9), want: "14"},
		"no gzip":         {file: "decisions-2.ndjson.gz", damage: replace("no gzip"), want: "14", told: "decisions-2.ndjson.gz: "},
		"no records":      {file: "decisions-2.ndjson", damage: replace("[\"x\"]\nno x\n{}\n"), want: "14", told: "2 lines skipped: not a JSON object"},
		"an empty file":   {file: "decisions-2.ndjson", damage: replace(""), want: "14"},
		"a link":          {file: "decisions-2.ndjson", damage: func(path string) error { return errors.Join(os.Remove(path), os.Symlink("/etc/passwd", path)) }, want: "14", told: "not a regular file"},
		"a file too long": {file: "decisions-2.ndjson", damage: replace(`{"x":2,"y":"` + strings.Repeat("y", maxLine)), want: "14", told: "a line is longer than"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := writeExport(t, map[string]string{"decisions-1.ndjson": "{\"x\":1}\n", tt.file: "{\"x\":2}\n{\"x\":3}\n", "decisions-4.ndjson": "{\"x\":4}\n"})
			if tt.damage != nil && name != "a link" {
				if err := tt.damage(filepath.Join(dir, tt.file)); err != nil {
					t.Fatal(err)
				}
			}
			c := openExport(t, dir)
			if name == "a link" {
				if err := tt.damage(filepath.Join(dir, tt.file)); err != nil {
					t.Fatal(err)
				}
			}
			s := search{filter: compiled(t, "has(record.x)"), out: writer{form: ndjson}}
			got := strings.NewReplacer(`{"x":`, "", "}\n", "").Replace(found(t, &s, partsOf(c, nil)))
			var said strings.Builder
			err := s.report.say(func(format string, args ...any) { fmt.Fprintf(&said, format+"\n", args...) })
			if got != tt.want || (err != nil) != (tt.told != "") || !strings.Contains(said.String(), tt.told) {
				t.Errorf("got %q, %v and %q, want %q and %q", got, err, said.String(), tt.want, tt.told)
			}
		})
	}
}

func cut(bytes int64) func(string) error {
	return func(path string) error {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		return os.Truncate(path, info.Size()-bytes)
	}
}

func replace(text string) func(string) error {
	return func(path string) error { return os.WriteFile(path, []byte(text), 0o600) }
}

// Errors of writing and the end of the context end the search, and leave nothing behind.
func TestSearchEnds(t *testing.T) {
	files := map[string]string{}
	for i := range 10 {
		files[fmt.Sprintf("decisions-%d.ndjson", i)] = strings.Repeat(fmt.Sprintf("{\"text\":%q}\n", strings.Repeat("x", 1000)), 3000)
	}
	c := openExport(t, writeExport(t, files))
	failed := errors.New("failed")
	s := search{}
	s.out.w = bufio.NewWriter(writing(func() error { return failed }))
	if err := s.run(t.Context(), partsOf(c, nil)); !errors.Is(err, failed) {
		t.Errorf("got %v, want %v", err, failed)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	s.out.w = bufio.NewWriter(writing(func() error { cancel(failed); return nil }))
	if err := s.run(ctx, partsOf(c, nil)); !errors.Is(err, failed) {
		t.Errorf("got %v, want %v", err, failed)
	}
}

// writing is a writer that does something first.
type writing func() error

func (w writing) Write(p []byte) (int, error) { return len(p), w() }

// Records of unknown times are found where they may be from within, and counted.
func TestSearchFileTimes(t *testing.T) {
	c := openExport(t, writeExport(t, map[string]string{"decisions-1.ndjson": "{\"n\":1}\n", "decisions-2.ndjson": "{\"n\":2}\n", "decisions-3.ndjson": "{\"n\":3}\n"}))
	c.Files[0].FirstTime, c.Files[0].LastTime = day(1), day(2)
	c.Files[1].FirstTime, c.Files[1].LastTime = day(1), day(5)
	s := search{from: day(3), to: day(9)}
	got := found(t, &s, partsOf(c, nil))
	var said strings.Builder
	err := s.report.say(func(format string, args ...any) { fmt.Fprintf(&said, format, args...) })
	want := "note: 2 records may be outside --from and --to: neither the record nor a stamp has a time"
	if got != "{\"n\":2}\n{\"n\":3}\n" || err != nil || said.String() != want {
		t.Errorf("got %q, %v and %q", got, err, said.String())
	}
}

// What retention removes meanwhile is told, and no failure.
func TestSearchRemoved(t *testing.T) {
	s := search{}
	if got := found(t, &s, []part{removed{}}); got != "" {
		t.Errorf("got %q", got)
	}
	var said strings.Builder
	if err := s.report.say(func(format string, args ...any) { fmt.Fprintf(&said, format, args...) }); err != nil || said.String() != "note: x: was removed by retention meanwhile" {
		t.Errorf("got %v and %q", err, said.String())
	}
}

// removed is a file that retention has removed.
type removed struct{}

func (removed) read(context.Context, func(stored) error) error {
	return fmt.Errorf("x: %w", verify.ErrRemoved)
}

// memoryQueue is a queue with these records.
type memoryQueue struct {
	records []segment.Record
	lost    []inspect.Finding
	err     error
}

func (q *memoryQueue) Read(_ context.Context, _ segment.SeqRange, record func(segment.Record) error, lost func(inspect.Finding) error) error {
	for _, f := range q.lost {
		if err := lost(f); err != nil {
			return err
		}
	}
	for _, r := range q.records {
		data := slices.Clone(r.Data)
		r.Data = data
		if err := record(r); err != nil {
			return err
		}
		clear(data) // nobody may keep it
	}
	return q.err
}

// The records of a queue have the time at which they were received.
func TestSearchQueue(t *testing.T) {
	began := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	q := memoryQueue{lost: []inspect.Finding{{Severity: inspect.Note, Text: "a torn tail"}, {Severity: inspect.Damage, Text: "a hole"}}, err: errors.New("no more")}
	var want strings.Builder
	for n := range 5000 {
		data := fmt.Appendf(nil, `{"n":%d,"text":%q}`, n, strings.Repeat("x", n%500))
		q.records = append(q.records, segment.Record{Seq: uint64(n + 1), Received: began.Add(time.Duration(n) * time.Minute), Data: data})
		if n >= 1000 && n < 4000 && n%2 == 0 {
			want.Write(append(data, '\n'))
		}
	}
	var p verify.Progress
	s := search{filter: compiled(t, "record.n % 2 == 0"), from: began.Add(1000 * time.Minute), to: began.Add(4000 * time.Minute)}
	if got := found(t, &s, []part{&queuePart{queue: &q, progress: &p, report: &s.report}}); got != want.String() {
		t.Errorf("got %d bytes, want %d, or others", len(got), want.Len())
	}
	if len(s.report.problems) != 2 || !strings.Contains(s.report.problems[0], "a hole") || s.report.problems[1] != "no more" {
		t.Errorf("got the problems %q, want the hole and the error", s.report.problems)
	}
}
