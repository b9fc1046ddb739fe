package verify

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// begin writes an unfinished file and returns the position that names it.
func (b *builder) begin(f file) manifest.Position {
	b.t.Helper()
	f.name = activeFile
	e, data := b.entry(f)
	b.write(activeFile, append(data, `{"torn":`...))
	return manifest.Position{
		Queue: e.Queue, Last: e.LastSeq, Gaps: e.Gaps, Active: &e,
		Manifest: int64(len(b.read(manifest.FileName))), Chain: b.chain.Previous,
	}
}

func fixed(p manifest.Position) func() (manifest.Position, bool, error) {
	return func() (manifest.Position, bool, error) { return p, true, nil }
}

func TestActive(t *testing.T) {
	gaps := []sinks.Gap{{From: 22, To: 22, Reason: sinks.Filtered}, {From: 25, To: 27, Reason: sinks.Filtered}}
	for name, tt := range map[string]struct {
		do   func(b *builder, p *manifest.Position)
		kind Kind // empty: no break
		note string
	}{
		"as accepted": {do: func(*builder, *manifest.Position) {}},
		"being finished, renamed": {do: func(b *builder, p *manifest.Position) {
			p.Finishing = "decisions-x.ndjson"
			b.must(os.Rename(b.path(activeFile), b.path(p.Finishing)))
		}},
		"being finished, not yet renamed": {do: func(_ *builder, p *manifest.Position) { p.Finishing = "decisions-x.ndjson" }},
		"finished, the position does not know": {
			do: func(b *builder, p *manifest.Position) {
				p.Finishing = "decisions-x.ndjson"
				b.must(os.Remove(b.path(activeFile)))
				b.add(file{name: p.Finishing, to: 27, gaps: gaps})
			},
			note: "bytes that are not in the position",
		},
		"byte edited": {do: func(b *builder, _ *manifest.Position) { b.change(activeFile, flip(10)) }, kind: ActiveDamaged},
		"cut":         {do: func(b *builder, p *manifest.Position) { b.must(os.Truncate(b.path(activeFile), p.Active.Bytes-1)) }, kind: ActiveDamaged},
		"gone":        {do: func(b *builder, _ *manifest.Position) { b.must(os.Remove(b.path(activeFile))) }, kind: ActiveDamaged},
		"a link": {do: func(b *builder, _ *manifest.Position) {
			to := filepath.Join(b.t.TempDir(), "x")
			b.must(os.Rename(b.path(activeFile), to))
			b.must(os.Symlink(to, b.path(activeFile)))
		}, kind: NotAFile},
		"manifest cut, newest file gone": {do: func(b *builder, _ *manifest.Position) {
			b.changeLines(manifest.FileName, func(l []string) []string { return l[:3] })
			b.must(os.Remove(b.path(standardName(4))))
			b.write(standardName(1), []byte(strings.Join(recordsOf(1, 5), "")))
		}, kind: ManifestCut},
		"manifest written anew": {do: func(b *builder, _ *manifest.Position) {
			b.chainAnew(nil, func(l []*manifest.Line) []*manifest.Line {
				l[0].Entry.Finished = when.AddDate(1, 0, 0)
				return l
			})
		}, kind: ManifestReplaced},
		"records left out": {do: func(_ *builder, p *manifest.Position) { p.Active.FirstSeq++ }, kind: SeqsMissing},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBuilder(t)
			standard(b, "")
			p := b.begin(file{to: 27, gaps: gaps})
			tt.do(b, &p)
			r := mustRun(t, b.dir, Options{Position: fixed(p), Last: &Anchor{Queue: queueA, Seq: 27}})
			if tt.kind != "" {
				if r.Break == nil || r.Break.Kind != tt.kind || name == "cut" && !strings.HasSuffix(r.Break.Expected, "that were accepted") {
					t.Errorf("got %+v, want %s", r.Break, tt.kind)
				}
				return
			}
			if r.Break != nil {
				t.Fatalf("got %+v, want no break", r.Break)
			}
			if tt.note != "" {
				if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], tt.note) {
					t.Errorf("got notes %q, want one with %q", r.Notes, tt.note)
				}
				return
			}
			if a := r.Active; a == nil || !a.Checked || a.Records != 3 || a.FirstSeq != 21 || a.LastSeq != 27 {
				t.Errorf("got active %+v, want 3 records from 21 to 27", a)
			}
			if r.Records != 13 || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "only the unsigned position names the record") {
				t.Errorf("got %d records proven, notes %q, want 13 and a note on the last record", r.Records, r.Notes)
			}
		})
	}
}

func TestActiveWithoutPosition(t *testing.T) {
	b := newBuilder(t)
	standard(b, "")
	p := b.begin(file{to: 22})
	for name, o := range map[string]Options{
		"nobody reads it": {},
		"there is none":   {Position: func() (manifest.Position, bool, error) { return manifest.Position{}, false, nil }},
	} {
		r := mustRun(t, b.dir, o)
		if r.Break != nil || r.Active == nil || r.Active.Checked || r.Active.Bytes != p.Active.Bytes+8 || (len(r.Notes) > 0) != (o.Position != nil) {
			t.Errorf("%s: got %+v, %+v, %q", name, r.Break, r.Active, r.Notes)
		}
	}
	failing := errors.New("position: input/output error")
	_, err := Run(t.Context(), b.dir, Options{Position: func() (manifest.Position, bool, error) { return manifest.Position{}, false, failing }})
	if !errors.Is(err, failing) {
		t.Errorf("got %v, want %v", err, failing)
	}
}

// A young export has no manifest yet. What is no directory is no export.
func TestNothingFinished(t *testing.T) {
	b := newBuilder(t)
	b.write(activeFile, nil)
	if r := mustRun(t, b.dir, Options{}); r.Verdict() != Unanchored || r.Active != nil {
		t.Errorf("empty active file: got %+v, want that nothing is wrong or proven", r)
	}
	for name, dir := range map[string]string{"missing": filepath.Join(t.TempDir(), "x"), "a file": b.path(activeFile)} {
		if _, err := Run(t.Context(), dir, Options{}); !errors.Is(err, ErrNoExport) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: got %v, want that there is no export in %s", name, err, dir)
		}
	}
}

// TestBeside runs beside an exporter that has done something whenever the position is
// read, which is when the export is looked at for a second time.
func TestBeside(t *testing.T) {
	b := newBuilder(t)
	names := standard(b, "")
	b.begin(file{to: 22})
	var p manifest.Position
	reads := 0
	r := mustRun(t, b.dir, Options{Last: &Anchor{Queue: queueA, Seq: 31}, Position: func() (manifest.Position, bool, error) {
		reads++
		switch reads {
		case 1: // finished and begun between the reading of the manifest and this; then, behind our back:
			b.add(file{to: 22})
			p = b.begin(file{to: 25})
			old := p
			b.add(file{to: 25})
			p = b.begin(file{to: 28})
			return old, true, nil
		case 2: // the file that it names is not the one any more
			old := p
			b.add(file{to: 28})
			b.remove(names[1])
			p = b.begin(file{to: 31})
			old.Manifest, old.Chain = p.Manifest, p.Chain
			return old, true, nil
		}
		return p, true, nil
	}})
	if r.Break != nil || r.Lines != 9 || r.Files != 5 || r.RemovedFiles != 2 || r.Active == nil || r.Active.LastSeq != 31 {
		t.Errorf("got %+v, %+v, want no break, 9 lines, 5 files, 2 removed, an active file up to 31", r, r.Active)
	}
}

// A file that was there at first and is removed before it is read is not missing.
func TestRemovedMeanwhile(t *testing.T) {
	b := newBuilder(t)
	names := standard(b, "")
	b.must(os.Remove(b.path(names[2])))
	p := b.begin(file{to: 22})
	removed := false
	r := mustRun(t, b.dir, Options{Position: func() (manifest.Position, bool, error) {
		if !removed {
			b.write(names[2], nil)
			b.remove(names[2])
			removed = true
			return p, true, nil
		}
		p.Manifest, p.Chain = int64(len(b.read(manifest.FileName))), b.chain.Previous
		return p, true, nil
	}})
	if r.Break != nil || r.RemovedFiles != 2 {
		t.Errorf("got %+v, %d files removed, want no break and 2", r.Break, r.RemovedFiles)
	}
}

func TestBusy(t *testing.T) {
	b := newBuilder(t)
	standard(b, "")
	last := uint64(20)
	_, err := Run(t.Context(), b.dir, Options{Position: func() (manifest.Position, bool, error) {
		p := b.begin(file{to: last + 2})
		last++
		b.add(file{to: last})
		return p, true, nil
	}})
	if err == nil || !strings.Contains(err.Error(), "faster than verify can read them") || last != 20+positionTries {
		t.Errorf("got %v after %d tries, want that it is too busy after %d", err, last-20, positionTries)
	}
}

// docket replaces the manifest when it starts and finds a torn line in it.
func TestManifestReplaced(t *testing.T) {
	b := newBuilder(t)
	standard(b, "")
	var p manifest.Position
	_, err := Run(t.Context(), b.dir, Options{Position: func() (manifest.Position, bool, error) {
		if p.Manifest == 0 {
			content := b.read(manifest.FileName)
			b.must(os.Remove(b.path(manifest.FileName)))
			b.write(manifest.FileName, content)
			b.add(file{to: 22})
			p = b.begin(file{to: 24})
		}
		return p, true, nil
	}})
	if err == nil || !strings.Contains(err.Error(), "replaced during the check") {
		t.Errorf("got %v, want that the manifest was replaced", err)
	}
}

func TestNotes(t *testing.T) {
	b := newBuilder(t)
	names := standard(b, "")
	b.write("decisions-unnumbered-20260105T100407Z.ndjson", []byte("{}\n"))
	b.write(names[0], []byte(strings.Join(recordsOf(1, 5), "")))
	b.append([]byte(`{"version":1`))
	b.write(lockName, nil)
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
