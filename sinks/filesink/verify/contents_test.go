package verify

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// otherName is one that the sink can give to a file.
var otherName = manifest.Finished(21, 22, "20260301T000000Z", "")

// readAll returns the lines of c. Of a file that ends with an error it has what came before.
func readAll(t *testing.T, c *Contents) (lines []string, err error) {
	t.Helper()
	var p Progress
	for i := range c.Files {
		r, openErr := c.Reader(&c.Files[i], &p)
		if openErr != nil {
			err = errors.Join(err, openErr)
			continue
		}
		text, readErr := io.ReadAll(r)
		err = errors.Join(err, readErr, r.Close())
		lines = slices.AppendSeq(lines, strings.Lines(string(text)))
	}
	if got := p.Done.Load(); err == nil && got != c.Bytes() {
		t.Errorf("got a progress of %d bytes, want %d", got, c.Bytes())
	}
	return lines, err
}

// standardRecords are those of standard that are still there.
func standardRecords() []string {
	return slices.Concat(recordsOf(6, 10), recordsOf(12, 12), recordsOf(14, 20))
}

func openContents(t *testing.T, dir string) *Contents {
	t.Helper()
	c, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// What lies in a directory is searched in the order of the records. What is missing or does
// not belong there is told.
func TestOpen(t *testing.T) {
	none := func(*builder, []string) {}
	for name, tt := range map[string]struct {
		do       func(b *builder, names []string)
		suffix   string
		noActive bool // nothing is being written
		want     []string
		note     string
		problem  string
	}{
		"plain": {do: none},
		"gzip":  {do: none, suffix: ".gz"},
		"zstd":  {do: none, suffix: ".zst"},
		"no manifest": {do: func(b *builder, _ []string) { b.must(os.Remove(b.path(manifest.FileName))) }, noActive: true,
			want: standardRecords()},
		"torn": {do: func(b *builder, _ []string) {
			b.write(manifest.ActiveName, []byte(recordsOf(21, 21)[0]+`{"torn":`))
		}, want: append(append(standardRecords(), recordsOf(21, 21)...), `{"torn":`)},
		"being finished": {do: func(b *builder, _ []string) {
			b.must(os.Rename(b.path(manifest.ActiveName), b.path(otherName)))
		}, note: otherName + " is in no line"},
		"finished while it is listed": {do: func(b *builder, _ []string) {
			b.must(os.Link(b.path(manifest.ActiveName), b.path(otherName)))
		}},
		"no line of a file": {do: func(b *builder, _ []string) { b.write(otherName, []byte("{}\n")) }, noActive: true,
			want: append(standardRecords(), "{}\n"), note: otherName + " is in no line"},
		"not a file of an export": {do: func(b *builder, _ []string) { b.write("notes.txt", []byte("{}\n")) }, note: "1 file of another kind"},
		"set aside":               {do: func(b *builder, _ []string) { b.write("decisions-unnumbered-x.ndjson", []byte("{}\n")) }, note: "set aside"},
		"a link": {do: func(b *builder, names []string) { b.must(os.Symlink(b.path(names[1]), b.path(otherName))) },
			note: "1 file of another kind"},
		"a link in place of a file": {do: func(b *builder, names []string) {
			b.must(os.Rename(b.path(names[1]), b.path("elsewhere")))
			b.must(os.Symlink(b.path("elsewhere"), b.path(names[1])))
		}, noActive: true, want: standardRecords()[5:], note: "1 file of another kind", problem: standardName(2) + " has "},
		"a missing file": {do: func(b *builder, names []string) { b.must(os.Remove(b.path(names[1]))) }, noActive: true,
			want: standardRecords()[5:], problem: standardName(2) + " is missing"},
		"a shorter file": {do: func(b *builder, names []string) { b.write(names[1], []byte(recordsOf(6, 6)[0])) }, noActive: true,
			want: slices.Concat(recordsOf(6, 6), standardRecords()[5:]), problem: standardName(2) + " has "},
		"a damaged line": {do: func(b *builder, _ []string) {
			b.changeLines(manifest.FileName, func(l []string) []string { l[2] = "x\n"; return l })
		}, noActive: true, want: standardRecords(), note: standardName(4) + " is in no line", problem: "manifest line 3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBuilder(t)
			names := standard(b, tt.suffix)
			if !tt.noActive {
				b.write(manifest.ActiveName, recordsData(21, 22))
			}
			if tt.want == nil {
				tt.want = append(standardRecords(), recordsOf(21, 22)...)
			}
			tt.do(b, names)
			c := openContents(t, b.dir)
			got, err := readAll(t, c)
			if err != nil && !strings.Contains(err.Error(), "not a regular file") {
				t.Fatal(err)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
			if last := c.Files[len(c.Files)-1]; last.Unfinished != (last.Name == manifest.ActiveName) {
				t.Errorf("got %+v, want the one that is being written to be unfinished", last)
			}
			for what, text := range map[string][2]string{"note": {strings.Join(c.Notes, "\n"), tt.note}, "problem": {strings.Join(c.Problems, "\n"), tt.problem}} {
				if text[1] == "" && text[0] != "" || !strings.Contains(text[0], text[1]) {
					t.Errorf("got the %ss %q, want %q", what, text[0], text[1])
				}
			}
		})
	}
}

// The unfinished file is read by the content that it had, whatever gets its name.
func TestOpenBeside(t *testing.T) {
	b := newBuilder(t)
	standard(b, "")
	b.write(manifest.ActiveName, recordsData(21, 22))
	c := openContents(t, b.dir)
	b.must(os.Rename(b.path(manifest.ActiveName), b.path(otherName))) // and its successor
	b.write(manifest.ActiveName, []byte("{}\n"))
	got, err := readAll(t, c)
	if want := append(standardRecords(), recordsOf(21, 22)...); err != nil || !slices.Equal(got, want) {
		t.Errorf("got  %q, %v\nwant %q", got, err, want)
	}
}

// A file that retention removes behind Open is told from one that somebody has taken away.
func TestOpenRemoved(t *testing.T) {
	b := newBuilder(t)
	names := standard(b, "")
	c := openContents(t, b.dir)
	b.remove(names[1])
	b.must(os.Remove(b.path(names[2])))
	for i, want := range []error{ErrRemoved, fs.ErrNotExist} {
		if _, err := c.Reader(&c.Files[i], nil); !errors.Is(err, want) || !strings.Contains(err.Error(), names[i+1]) {
			t.Errorf("got %v, want %v of %s", err, want, names[i+1])
		}
	}
}

// A directory in which no sink has written is no export without records. A young export is one.
func TestOpenNoExport(t *testing.T) {
	for name, tt := range map[string]struct {
		do   func(b *builder)
		want error
	}{
		"empty":             {do: func(*builder) {}, want: ErrNoExport},
		"foreign files":     {do: func(b *builder) { b.write("a", nil); b.write("b", nil) }, want: ErrNoExport},
		"an unfinished one": {do: func(b *builder) { b.write(manifest.ActiveName, nil) }},
		"a manifest":        {do: func(b *builder) { b.write(manifest.FileName, nil) }},
	} {
		b := newBuilder(t)
		b.must(os.MkdirAll(b.dir, 0o700))
		tt.do(b)
		c, err := Open(b.dir)
		if !errors.Is(err, tt.want) || tt.want == nil && err != nil {
			t.Errorf("%s: got %v, want %v", name, err, tt.want)
		}
		if err == nil {
			b.must(c.Close())
		}
	}
}

// recordsData is a file of records.
func recordsData(from, to uint64) []byte { return []byte(strings.Join(recordsOf(from, to), "")) }
