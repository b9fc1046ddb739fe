package verify

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// begin writes an unfinished file.
func (b *builder) begin(to uint64) {
	b.t.Helper()
	b.write(manifest.ActiveName, append(recordsData(b.last[queueA]+1, to), `{"torn":`...))
}

const finishedName = "decisions-00000000000000000021-00000000000000000027-20260105T100407Z.ndjson"

// The unfinished file is reported, and is no break, also while it is being finished.
func TestUnfinished(t *testing.T) {
	finishing := func(b *builder) { b.must(os.Rename(b.path(manifest.ActiveName), b.path(finishedName))) }
	for name, tt := range map[string]struct {
		do   func(b *builder)
		kind Kind   // empty: no break
		file string // unfinished
	}{
		"being written":  {do: func(*builder) {}, file: manifest.ActiveName},
		"being finished": {do: finishing, file: finishedName},
		"finished": {do: func(b *builder) {
			b.must(os.Remove(b.path(manifest.ActiveName)))
			b.add(file{name: finishedName, to: 27})
		}},
		"a line that is being written": {do: func(b *builder) {
			finishing(b)
			b.append([]byte(`{"version":1`))
		}, file: finishedName},
		"empty":                     {do: func(b *builder) { b.write(manifest.ActiveName, nil) }},
		"edited, which nobody sees": {do: func(b *builder) { b.change(manifest.ActiveName, flip(10)) }, file: manifest.ActiveName},
		"a link": {do: func(b *builder) {
			to := filepath.Join(b.t.TempDir(), "x")
			b.must(os.Rename(b.path(manifest.ActiveName), to))
			b.must(os.Symlink(to, b.path(manifest.ActiveName)))
		}, kind: NotAFile},
		"a file without a line beside it": {do: func(b *builder) { b.write(finishedName, []byte("{}\n")) }, kind: FileUnlisted, file: manifest.ActiveName},
		"two files without a line":        {do: func(b *builder) { finishing(b); b.write("decisions-x.ndjson", nil) }, kind: FileUnlisted},
		"another name":                    {do: func(b *builder) { b.must(os.Rename(b.path(manifest.ActiveName), b.path("x.ndjson"))) }, kind: FileUnlisted},
		"a link in place of the file that is being finished": {do: func(b *builder) {
			b.must(os.Remove(b.path(manifest.ActiveName)))
			b.must(os.Symlink("elsewhere", b.path(finishedName)))
		}, kind: FileUnlisted},
		"no manifest": {do: func(b *builder) { finishing(b); b.must(os.Remove(b.path(manifest.FileName))) }, kind: ManifestMissing},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBuilder(t)
			standard(b, "")
			b.begin(27)
			tt.do(b)
			r := mustRun(t, b.dir, Options{})
			if kind := kindOf(r.Break); kind != tt.kind {
				t.Fatalf("got %+v, want %q", r.Break, tt.kind)
			}
			if r.Active == nil && tt.file != "" || r.Active != nil && (r.Active.File != tt.file || r.Active.Bytes < 100) {
				t.Errorf("got active %+v, want %q", r.Active, tt.file)
			}
			if tt.kind == "" && r.End.Seq != 20 && r.End.Seq != r.Queues[0].LastSeq {
				t.Errorf("got the end %+v, want that of the lines", r.End)
			}
		})
	}
}

func kindOf(b *Break) Kind {
	if b == nil {
		return ""
	}
	return b.Kind
}

// runAfter runs do when the directory was listed, and then the rest.
func runAfter(t *testing.T, b *builder, do func()) (Report, error) {
	t.Helper()
	root, err := openRoot(b.dir)
	b.must(err)
	defer root.Close()
	v := newVerifier(t.Context(), root, Options{})
	b.must(v.open())
	if v.manifest != nil {
		defer v.manifest.Close()
	}
	b.must(v.readLines())
	do()
	if err := v.checkDirectory(); err != nil {
		return Report{}, err
	}
	return v.report, nil
}

// A file whose line comes after the lines were read is no break: the sink makes the next
// active file only then.
func TestFinishedMeanwhile(t *testing.T) {
	for name, do := range map[string]func(b *builder){
		"not yet":                func(*builder) {},
		"with its line":          func(b *builder) { b.add(file{name: finishedName, to: 27}) },
		"and the next was begun": func(b *builder) { b.add(file{name: finishedName, to: 27}); b.begin(30) },
		"and removed by retention": func(b *builder) {
			b.add(file{name: finishedName, to: 27})
			b.add(file{to: 30})
			b.remove(finishedName)
			b.begin(33)
		},
	} {
		b := newBuilder(t)
		standard(b, "")
		b.write(finishedName, recordsData(21, 27))
		r, err := runAfter(t, b, func() { do(b) })
		if err != nil || r.Break != nil {
			t.Errorf("%s: got %+v, %v, want no break", name, r.Break, err)
		}
	}
}

// docket replaces the manifest when it starts and finds a torn line in it.
func TestManifestReplaced(t *testing.T) {
	b := newBuilder(t)
	standard(b, "")
	b.write(finishedName, recordsData(21, 27))
	_, err := runAfter(t, b, func() {
		content := b.read(manifest.FileName)
		b.must(os.Remove(b.path(manifest.FileName)))
		b.write(manifest.FileName, content)
		b.add(file{name: finishedName, to: 27})
		b.begin(30)
	})
	if err == nil || !strings.Contains(err.Error(), "replaced during the check") {
		t.Errorf("got %v, want that the manifest was replaced", err)
	}
}

// A young export has no line yet, so nothing can be signed, and checkpoints of others say
// nothing of it. What is no directory is no export.
func TestYoungExport(t *testing.T) {
	for name, file := range map[string]string{"being written": manifest.ActiveName, "being finished": finishedName} {
		b := newBuilder(t)
		b.write(manifest.FileName, nil)
		b.write(file, recordsData(1, 3))
		r := mustRun(t, b.dir, Options{
			Checkpoints: []Checkpoint{{Sink: "x", Export: manifest.Hash{1}, Place: Place{queueB, 7}}}, PublicKeys: publicKeys(1),
			Last: &Anchor{Queue: queueA, Seq: 2},
		})
		if r.Verdict() != Unanchored || r.Active == nil || len(r.Notes) != 3 {
			t.Errorf("%s: got %s, %+v, %+v, %q, want that nothing is wrong or proven, and why", name, r.Verdict(), r.Break, r.Active, r.Notes)
		}
	}
	b := newBuilder(t)
	b.write(manifest.ActiveName, nil)
	if r := mustRun(t, b.dir, Options{}); r.Verdict() != Unanchored || r.Active != nil {
		t.Errorf("empty active file: got %+v, want that nothing is wrong or proven", r)
	}
	for name, dir := range map[string]string{"missing": filepath.Join(t.TempDir(), "x"), "a file": b.path(manifest.ActiveName)} {
		if _, err := Run(t.Context(), dir, Options{}); !errors.Is(err, ErrNoExport) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: got %v, want that there is no export in %s", name, err, dir)
		}
	}
}

// A record behind the last finished file is no anchor: it may be in the unfinished file, or
// removed. The hash of a line is in the manifest, or was removed.
func TestLastBehindTheEnd(t *testing.T) {
	b := newBuilder(t)
	standard(b, "")
	b.begin(27)
	for _, queue := range []string{queueA, queueB} {
		r := mustRun(t, b.dir, Options{Last: &Anchor{Queue: queue, Seq: 25}})
		if r.Verdict() != Unanchored || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "comes after the last finished file") {
			t.Errorf("got %s, %+v, %q, want no proof and a note", r.Verdict(), r.Break, r.Notes)
		}
	}
	if r := mustRun(t, b.dir, Options{Last: &Anchor{Line: &manifest.Hash{1}}}); kindOf(r.Break) != LastMissing {
		t.Errorf("got %+v, want that the line is missing", r.Break)
	}
}

func TestNotes(t *testing.T) {
	b := newBuilder(t)
	names := standard(b, "")
	b.write("decisions-unnumbered-20260105T100407Z.ndjson", []byte("{}\n"))
	b.write(names[0], []byte(strings.Join(recordsOf(1, 5), "")))
	b.append([]byte(`{"version":1`))
	b.write(manifest.LockName, nil)
	b.write(lostAndFound+"/x", nil)
	r := mustRun(t, b.dir, Options{})
	want := []string{
		names[0] + " is still there", "decisions-unnumbered-20260105T100407Z.ndjson was set aside", "the manifest ends with 12 bytes of an unfinished line",
	}
	if r.Break != nil || len(r.Notes) != len(want) || r.Files != 3 || r.Records != 13 {
		t.Fatalf("got %+v, %q, %d files with %d records, want no break, 3 with 13, and notes %q", r.Break, r.Notes, r.Files, r.Records, want)
	}
	for i := range want {
		if !strings.HasPrefix(r.Notes[i], want[i]) {
			t.Errorf("got note %q, want %q", r.Notes[i], want[i])
		}
	}
}

func TestCanceled(t *testing.T) {
	b := newBuilder(t)
	standard(b, "")
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("interrupted")
	cancel(why)
	if _, err := Run(ctx, b.dir, Options{}); !errors.Is(err, why) {
		t.Errorf("got %v, want %v", err, why)
	}
}

// A file that is removed while it is read is not among those that are there.
func TestRemovedWhileRead(t *testing.T) {
	b := newBuilder(t)
	name := b.add(file{to: 5})
	content := b.read(name)
	b.remove(name)
	b.write(name, content)
	if r := mustRun(t, b.dir, Options{}); r.Break != nil || r.Files != 0 || r.Bytes != 0 || r.Records != 0 || r.RemovedRecords != 5 {
		t.Errorf("got %+v, %d files with %d records, %d removed, want none but 5 removed", r.Break, r.Files, r.Records, r.RemovedRecords)
	}
}
