package verify

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/sinks/filesink/manifest"
)

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
			b.write(activeFile, []byte(recordsOf(21, 21)[0]+`{"torn":`))
		}, want: append(append(standardRecords(), recordsOf(21, 21)...), `{"torn":`)},
		"being finished": {do: func(b *builder, _ []string) {
			b.must(os.Rename(b.path(activeFile), b.path("decisions-x.ndjson")))
		}, note: "decisions-x.ndjson is in no line"},
		"no line of a file": {do: func(b *builder, _ []string) { b.write("decisions-x.ndjson", []byte("{}\n")) }, noActive: true,
			want: append(standardRecords(), "{}\n"), note: "decisions-x.ndjson is in no line"},
		"not a file of an export": {do: func(b *builder, _ []string) { b.write("notes.txt", []byte("{}\n")) }, note: "notes.txt is not a file"},
		"set aside":               {do: func(b *builder, _ []string) { b.write("decisions-unnumbered-x.ndjson", []byte("{}\n")) }, note: "set aside"},
		"a link": {do: func(b *builder, names []string) { b.must(os.Symlink(b.path(names[1]), b.path("decisions-x.ndjson"))) },
			note: "decisions-x.ndjson is not a file"},
		"a link in place of a file": {do: func(b *builder, names []string) {
			b.must(os.Rename(b.path(names[1]), b.path("elsewhere")))
			b.must(os.Symlink(b.path("elsewhere"), b.path(names[1])))
		}, noActive: true, want: standardRecords()[5:], note: "elsewhere is not a file", problem: standardName(2) + " has "},
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
				b.write(activeFile, recordsData(21, 22))
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
			if last := c.Files[len(c.Files)-1]; last.Unfinished != (last.Name == activeFile) {
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
	b.write(activeFile, recordsData(21, 22))
	c := openContents(t, b.dir)
	b.must(os.Rename(b.path(activeFile), b.path("decisions-later.ndjson"))) // and its successor
	b.write(activeFile, []byte("{}\n"))
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

// A directory has changed once a file was finished or a line was added.
func TestLook(t *testing.T) {
	b := newBuilder(t)
	standard(b, "")
	b.write(activeFile, recordsData(21, 22))
	c := openContents(t, b.dir)
	looks := []look{mustLook(t, c)}
	for _, do := range []func(){
		func() { b.must(os.Rename(b.path(activeFile), b.path("decisions-x.ndjson"))) },
		func() { b.append([]byte("{}\n")) },
		func() { b.write(activeFile, nil) },
	} {
		do()
		looks = append(looks, mustLook(t, c))
	}
	b.write(activeFile, recordsData(23, 24))
	if same := mustLook(t, c); !looks[3].isSame(same) {
		t.Errorf("got %+v, want the same as %+v: only records were added", same, looks[3])
	}
	for i := range looks {
		for j := range looks {
			if looks[i].isSame(looks[j]) != (i == j) {
				t.Errorf("looks %d and %d: got %+v and %+v, want equal: %t", i, j, looks[i], looks[j], i == j)
			}
		}
	}
}

func mustLook(t *testing.T, c *Contents) look {
	t.Helper()
	l, err := c.look()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A directory in which no sink has written is no export without records. A young export is one.
func TestOpenNoExport(t *testing.T) {
	for name, tt := range map[string]struct {
		do   func(b *builder)
		want error
	}{
		"empty":             {do: func(*builder) {}, want: ErrNoExport},
		"foreign files":     {do: func(b *builder) { b.write("a", nil); b.write("b", nil) }, want: ErrNoExport},
		"an unfinished one": {do: func(b *builder) { b.write(activeFile, nil) }},
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

// A directory full of other files is named by a few.
func TestOpenForeign(t *testing.T) {
	b := newBuilder(t)
	standard(b, "")
	for i := range 10 {
		b.write(fmt.Sprintf("notes-%d.txt", i), nil)
	}
	c := openContents(t, b.dir)
	if len(c.Notes) != 4 || c.Notes[3] != "7 more files are not of an export" {
		t.Errorf("got %q, want three names and how many more there are", c.Notes)
	}
}

// recordsData is a file of records.
func recordsData(from, to uint64) []byte { return []byte(strings.Join(recordsOf(from, to), "")) }
