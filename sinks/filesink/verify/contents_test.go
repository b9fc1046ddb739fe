package verify

import (
	"context"
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

func unknownPosition() (manifest.Position, bool, error) { return manifest.Position{}, false, nil }

// readAll returns the lines of c that count. Of a file that ends with an error it has what
// came before.
func readAll(t *testing.T, c *Contents) (lines []string, err error) {
	t.Helper()
	var p Progress
	for i := range c.Files {
		f := &c.Files[i]
		r, openErr := c.Reader(f, &p)
		if openErr != nil {
			err = errors.Join(err, openErr)
			continue
		}
		text, readErr := io.ReadAll(r)
		err = errors.Join(err, readErr, r.Close())
		n := uint64(0)
		for line := range strings.Lines(string(text)) {
			if len(f.Lines) == 0 || slices.ContainsFunc(f.Lines, func(l Lines) bool { return l.From <= n && n < l.To }) {
				lines = append(lines, line)
			}
			n++
		}
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

func openContents(t *testing.T, dir string, position func() (manifest.Position, bool, error)) *Contents {
	t.Helper()
	c, err := Open(dir, position)
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
		torn     bool // the unfinished file ends within a line
	}{
		"plain": {do: none},
		"gzip":  {do: none, suffix: ".gz"},
		"zstd":  {do: none, suffix: ".zst"},
		"no manifest": {do: func(b *builder, _ []string) { b.must(os.Remove(b.path(manifest.FileName))) }, noActive: true,
			want: standardRecords()},
		"no position": {do: func(b *builder, _ []string) { b.begin(file{to: 22}) }, noActive: true,
			want: append(append(standardRecords(), recordsOf(21, 22)...), `{"torn":`), torn: true},
		"no line of a file": {do: func(b *builder, _ []string) { b.write("decisions-x.ndjson", []byte("{}\n")) }, noActive: true,
			want: append(standardRecords(), "{}\n"), problem: "decisions-x.ndjson is in no line"},
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
		"an unfinished file cut": {do: func(b *builder, _ []string) { b.write(activeFile, []byte(recordsOf(21, 21)[0])) },
			want: append(standardRecords(), recordsOf(21, 21)...), problem: activeFile + " has "},
		"a damaged line": {do: func(b *builder, _ []string) {
			b.changeLines(manifest.FileName, func(l []string) []string { l[2] = "x\n"; return l })
		}, noActive: true, want: standardRecords(), problem: "manifest line 3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBuilder(t)
			names := standard(b, tt.suffix)
			position := unknownPosition
			if !tt.noActive {
				position = fixed(b.begin(file{to: 22}))
			}
			if tt.want == nil {
				tt.want = append(standardRecords(), recordsOf(21, 22)...)
			}
			tt.do(b, names)
			c := openContents(t, b.dir, position)
			got, err := readAll(t, c)
			if err != nil && !strings.Contains(err.Error(), "not a regular file") {
				t.Fatal(err)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
			if last := c.Files[len(c.Files)-1]; last.Unaccepted != tt.torn {
				t.Errorf("got %+v, want that its end is known: %t", last, !tt.torn)
			}
			for what, text := range map[string][2]string{"note": {strings.Join(c.Notes, "\n"), tt.note}, "problem": {strings.Join(c.Problems, "\n"), tt.problem}} {
				if text[1] == "" && text[0] != "" || !strings.Contains(text[0], text[1]) {
					t.Errorf("got the %ss %q, want %q", what, text[0], text[1])
				}
			}
		})
	}
}

// A file that is finished while the export is listed is read once, as one or the other.
func TestOpenBeside(t *testing.T) {
	b := newBuilder(t)
	standard(b, "")
	p := b.begin(file{to: 22})
	asked := 0
	c := openContents(t, b.dir, func() (manifest.Position, bool, error) {
		if asked++; asked == 2 {
			b.must(os.Remove(b.path(activeFile)))
			b.add(file{to: 22})
			p = b.begin(file{to: 25})
		}
		return p, true, nil
	})
	b.must(os.Rename(b.path(activeFile), b.path("decisions-later.ndjson"))) // and its successor
	b.write(activeFile, []byte("{}\n"))
	got, err := readAll(t, c)
	if want := append(standardRecords(), recordsOf(21, 25)...); err != nil || !slices.Equal(got, want) {
		t.Errorf("got  %q, %v\nwant %q", got, err, want)
	}
}

// A file that retention removes behind Open is told from one that somebody has taken away.
func TestOpenRemoved(t *testing.T) {
	b := newBuilder(t)
	names := standard(b, "")
	c := openContents(t, b.dir, unknownPosition)
	b.remove(names[1])
	b.must(os.Remove(b.path(names[2])))
	for i, want := range []error{ErrRemoved, fs.ErrNotExist} {
		if _, err := c.Reader(&c.Files[i], nil); !errors.Is(err, want) || !strings.Contains(err.Error(), names[i+1]) {
			t.Errorf("got %v, want %v of %s", err, want, names[i+1])
		}
	}
}

// A sink that was interrupted between the line of a file and the position has the file once.
func TestOpenInterrupted(t *testing.T) {
	b := newBuilder(t)
	standard(b, "")
	p := b.begin(file{to: 22})
	b.must(os.Remove(b.path(activeFile)))
	p.Finishing = b.add(file{to: 22})
	got, err := readAll(t, openContents(t, b.dir, fixed(p)))
	if want := append(standardRecords(), recordsOf(21, 22)...); err != nil || !slices.Equal(got, want) {
		t.Errorf("got  %q, %v\nwant %q", got, err, want)
	}
}

// While the unfinished file gets its name, it is one file.
func TestOpenFinishing(t *testing.T) {
	for name, renamedAt := range map[string]int{"renamed before": 0, "renamed meanwhile": 1} {
		b := newBuilder(t)
		standard(b, "")
		p := b.begin(file{to: 22})
		rename := func() {
			p.Finishing = "decisions-x.ndjson"
			b.must(os.Rename(b.path(activeFile), b.path(p.Finishing)))
		}
		if renamedAt == 0 {
			rename()
		}
		asked := 0
		c := openContents(t, b.dir, func() (manifest.Position, bool, error) {
			old := p
			if asked++; asked == renamedAt {
				rename()
			}
			return old, true, nil
		})
		got, err := readAll(t, c)
		if want := append(standardRecords(), recordsOf(21, 22)...); err != nil || !slices.Equal(got, want) || len(c.Problems) > 0 {
			t.Errorf("%s: got  %q, %v, problems %q\nwant %q", name, got, err, c.Problems, want)
		}
	}
}

// A directory in which no sink has written is no export without records. A young export is one.
func TestOpenNoExport(t *testing.T) {
	for name, tt := range map[string]struct {
		do       func(b *builder)
		position manifest.Position
		want     error
	}{
		"empty":             {do: func(*builder) {}, want: ErrNoExport},
		"foreign files":     {do: func(b *builder) { b.write("a", nil); b.write("b", nil) }, want: ErrNoExport},
		"an unfinished one": {do: func(b *builder) { b.write(activeFile, nil) }},
		"a manifest":        {do: func(b *builder) { b.write(manifest.FileName, nil) }},
		"a position":        {do: func(*builder) {}, position: manifest.Position{Queue: queueA}},
	} {
		b := newBuilder(t)
		b.must(os.MkdirAll(b.dir, 0o700))
		tt.do(b)
		c, err := Open(b.dir, func() (manifest.Position, bool, error) { return tt.position, tt.position.Queue != "", nil })
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
	c := openContents(t, b.dir, unknownPosition)
	if len(c.Notes) != 4 || c.Notes[3] != "7 more files are not of an export" {
		t.Errorf("got %q, want three names and how many more there are", c.Notes)
	}
}

func TestOpenBusy(t *testing.T) {
	b := newBuilder(t)
	standard(b, "")
	p := b.begin(file{to: 22})
	_, err := Open(b.dir, func() (manifest.Position, bool, error) {
		p.Manifest++
		return p, true, nil
	})
	if err == nil || !strings.Contains(err.Error(), "faster than they can be listed") {
		t.Errorf("got %v, want that it is too busy", err)
	}
}

// mustProve returns the records that o vouches for.
func mustProve(t *testing.T, dir string, o Options) *Contents {
	t.Helper()
	r, c, err := Prove(t.Context(), dir, o)
	if err != nil || c == nil {
		t.Fatalf("got %v, %v, break %+v, doubts %q", err, r.Verdict(), r.Break, r.Doubts)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// What is returned is what an anchor vouches for, and no more.
func TestProve(t *testing.T) {
	for name, tt := range map[string]struct {
		options func(b *builder, hashes []manifest.Hash) Options
		want    []string
	}{
		"a line": {func(_ *builder, h []manifest.Hash) Options { return Options{Last: &Anchor{Line: &h[4]}} }, standardRecords()},
		"an id": {func(*builder, []manifest.Hash) Options {
			return Options{PublicKeys: publicKeys(1), Last: &Anchor{Queue: queueA, Seq: 17}}
		}, slices.Concat(recordsOf(6, 10), recordsOf(12, 12), recordsOf(14, 17))},
		"an id, and a queue behind": {func(b *builder, _ []manifest.Hash) Options {
			b.add(file{queue: queueB, to: 3})
			return Options{PublicKeys: publicKeys(1), Last: &Anchor{Queue: queueA, Seq: 20}}
		}, standardRecords()},
		"in a gap": {func(*builder, []manifest.Hash) Options {
			return Options{PublicKeys: publicKeys(1), Last: &Anchor{Queue: queueA, Seq: 13}}
		}, slices.Concat(recordsOf(6, 10), recordsOf(12, 12))},
		"a reference": {func(*builder, []manifest.Hash) Options {
			return Options{PublicKeys: publicKeys(1), Reference: remembered(8, 16)}
		}, slices.Concat(recordsOf(8, 10), recordsOf(12, 12), recordsOf(14, 16))},
		"a reference into the unfinished file": {func(b *builder, _ []manifest.Hash) Options {
			m := remembered(19, 23)
			m.due = 22
			return Options{Reference: m}
		}, recordsOf(19, 22)},
		"another queue before": {func(b *builder, _ []manifest.Hash) Options {
			b.add(file{queue: queueB, to: 3})
			h := b.lineHashes()
			return Options{Last: &Anchor{Line: &h[5]}}
		}, append(standardRecords(), queueBRecords()...)},
		"a queue behind": {func(b *builder, h []manifest.Hash) Options {
			b.add(file{queue: queueB, to: 3})
			return Options{Last: &Anchor{Line: &h[4]}}
		}, standardRecords()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBuilder(t)
			b.chain.Key = testKey(1)
			standard(b, ".zst")
			o := tt.options(b, b.lineHashes())
			o.Position = fixed(b.begin(file{to: 22}))
			c := mustProve(t, b.dir, o)
			if got, err := readAll(t, c); err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("got  %q, %v\nwant %q", got, err, tt.want)
			}
		})
	}
}

func queueBRecords() (lines []string) {
	for seq := range uint64(3) {
		lines = append(lines, recordOf(queueB, seq+1)+"\n")
	}
	return lines
}

// Without a proof there is nothing to read.
func TestProveNothing(t *testing.T) {
	for name, do := range map[string]func(b *builder, names []string){
		"no anchor": func(*builder, []string) {},
		"broken":    func(b *builder, names []string) { b.change(names[1], flip(3)) },
	} {
		b := newBuilder(t)
		do(b, standard(b, ""))
		h := b.lineHashes()
		o := Options{}
		if name == "broken" {
			o.Last = &Anchor{Line: &h[4]}
		}
		if r, c, err := Prove(t.Context(), b.dir, o); err != nil || r.Verdict() == Proven || c != nil {
			t.Errorf("%s: got %s, %v, %v, want no contents", name, r.Verdict(), c, err)
		}
	}
}

// A forger who acts between the proof and the reading is found out before anybody sees a
// byte of it.
func TestProvenThenForged(t *testing.T) {
	const largeRecord = 400<<10 + 18
	large := func(_ string, seq uint64) string {
		return fmt.Sprintf(`{"n":%d,"text":%q}`, seq, strings.Repeat("x", 400<<10))
	}
	for name, tt := range map[string]struct {
		do   func(b *builder, name string)
		want error
		kept int // bytes that may be read
	}{
		"nothing":         {do: func(*builder, string) {}, kept: 8 * largeRecord},
		"the first byte":  {do: func(b *builder, name string) { b.change(name, flip(0)) }, want: ErrChanged},
		"the second part": {do: func(b *builder, name string) { b.change(name, flip(sumStep+1)) }, want: ErrChanged, kept: sumStep},
		"the last byte":   {do: func(b *builder, name string) { b.change(name, flip(8*largeRecord-2)) }, want: ErrChanged, kept: 3 * sumStep},
		"in place": {do: func(b *builder, name string) {
			f, err := os.OpenFile(b.path(name), os.O_WRONLY, 0)
			b.must(err)
			_, err = f.WriteAt([]byte("y"), 2*sumStep)
			b.must(errors.Join(err, f.Close()))
		}, want: ErrChanged, kept: 2 * sumStep},
		"cut":     {do: func(b *builder, name string) { b.must(os.Truncate(b.path(name), 2*sumStep)) }, want: ErrChanged, kept: 2 * sumStep},
		"longer":  {do: func(b *builder, name string) { b.change(name, func(d []byte) []byte { return append(d, "{}\n"...) }) }, kept: 8 * largeRecord},
		"removed": {do: func(b *builder, name string) { b.must(os.Remove(b.path(name))) }, want: fs.ErrNotExist},
		"a link": {do: func(b *builder, name string) {
			b.must(os.Rename(b.path(name), b.path("x")))
			b.must(os.Symlink(b.path("x"), b.path(name)))
		}, want: errNotAFile},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBuilder(t)
			b.record = large
			file := b.add(file{to: 8})
			h := b.lineHashes()
			c := mustProve(t, b.dir, Options{Last: &Anchor{Line: &h[0]}})
			proven := b.read(file)
			tt.do(b, file)
			var got []byte
			r, err := c.Reader(&c.Files[0], nil)
			if err == nil {
				got, err = io.ReadAll(r)
				b.must(r.Close())
			}
			if !errors.Is(err, tt.want) || tt.want == nil && err != nil || len(got) != tt.kept || string(got) != string(proven[:tt.kept]) {
				t.Errorf("got %d bytes and %v, want the first %d that were proven, and %v", len(got), err, tt.kept, tt.want)
			}
		})
	}
}

// The sums stand where a reader looks for them, however much is read at a time.
func TestSums(t *testing.T) {
	path := t.TempDir() + "/x"
	if err := os.WriteFile(path, make([]byte, 2*sumStep+1), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c, err := hashFile(t.Context(), f, 2*sumStep+1, make([]byte, 300_000), nil)
	if want := []manifest.Hash{sumOf(make([]byte, sumStep)), sumOf(make([]byte, 2*sumStep)), c.hash}; err != nil || !slices.Equal(c.sums, want) {
		t.Errorf("got %v, %v, want %v", c.sums, err, want)
	}
}

// A reader of a compressed file says as well that it was changed.
func TestProvenThenForgedCompressed(t *testing.T) {
	for _, suffix := range []string{".gz", ".zst"} {
		b := newBuilder(t)
		names := standard(b, suffix)
		h := b.lineHashes()
		c := mustProve(t, b.dir, Options{Last: &Anchor{Line: &h[4]}})
		b.write(names[1], compress(t, names[1], []byte(strings.Join(recordsOf(1, 5), ""))))
		if got, err := readAll(t, c); !errors.Is(err, ErrChanged) || !slices.Equal(got, standardRecords()[5:]) {
			t.Errorf("%s: got %q, %v, want the records of the other files, and %v", suffix, got, err, ErrChanged)
		}
	}
}

// Lines that are edited behind the proof say nothing of what is read.
func TestProvenManifestForged(t *testing.T) {
	for line := range 5 {
		b := newBuilder(t)
		b.chain.Key = testKey(1)
		standard(b, "")
		o := Options{PublicKeys: publicKeys(1), Reference: &forging{remembered(6, 10), func() {
			b.changeLines(manifest.FileName, func(l []string) []string {
				l[line] = strings.Replace(l[line], "2026-01-05", "2027-01-05", 1)
				return l
			})
		}}}
		if r, c, err := Prove(t.Context(), b.dir, o); !errors.Is(err, ErrChanged) || c != nil {
			t.Errorf("line %d: got %s, %v, %v, want %v", line+1, r.Verdict(), c, err, ErrChanged)
		}
	}
}

// forging is a Reference that does something when it was read.
type forging struct {
	Reference
	do func()
}

// Read implements Reference.
func (f *forging) Read(ctx context.Context, queue string, from uint64, record func(Record) error) error {
	err := f.Reference.Read(ctx, queue, from, record)
	f.do()
	return err
}
