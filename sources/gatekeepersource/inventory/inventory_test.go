package inventory

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/testleak"
	"github.com/docket-export/docket/sources/failures"
)

func TestMain(m *testing.M) { testleak.Main(m) }

func TestParseName(t *testing.T) {
	for name, want := range map[string]struct {
		kind kind
		stem string
	}{
		"2026-01-05T10_04_00Z.log":                                            {finishedRun, "2026-01-05T10_04_00Z"},
		"2026-01-05T10_04_00Z.txt":                                            {liveRun, "2026-01-05T10_04_00Z"},
		"admission-20261121T080716.213551869Z-8ccf7d380018b3ee.open":          {liveSegment, "admission-20261121T080716.213551869Z-8ccf7d380018b3ee"},
		"admission-20261121T080716.213551869Z-8ccf7d380018b3ee.log":           {finishedSegment, "admission-20261121T080716.213551869Z-8ccf7d380018b3ee"},
		"admission-20261121T080716.213551869Z-8ccf7d380018b3ee.recovered.log": {finishedSegment, "admission-20261121T080716.213551869Z-8ccf7d380018b3ee"},
		"admission-20261121T080716.213551869Z-8ccf7d380018b3ee.log.deleting":  {doomedSegment, "admission-20261121T080716.213551869Z-8ccf7d380018b3ee"},
		"admission-20261121T080716.213551869Z-8ccf7d380018b3ee.txt":           {},
		"admission-20261121T080716.213551869Z-.log":                           {},
		"admission-2026.log":                                                  {},
		"2026-01-05.log":                                                      {},
		"2026-01-05T10_04_00Z":                                                {},
		"2026-01-05T10_04_00Z.gz":                                             {},
		".log":                                                                {},
		"":                                                                    {},
	} {
		if got := parseName(name); got.kind != want.kind || got.stem != want.stem {
			t.Errorf("%q: got %+v, want %+v", name, got, want)
		}
	}
}

// Whatever a name is by the time it is opened, it leads nowhere.
func TestDirFollowsNothing(t *testing.T) {
	base := t.TempDir()
	for _, d := range []string{"in/a", "out"} {
		if err := os.MkdirAll(filepath.Join(base, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"file": "/etc/hostname", "dir": "../../out"} {
		if err := os.Symlink(target, filepath.Join(base, "in/a", name)); err != nil {
			t.Fatal(err)
		}
	}
	top, err := openTop(filepath.Join(base, "in"))
	if err != nil {
		t.Fatal(err)
	}
	defer top.close()
	a, err := top.sub("a")
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	if f, _, err := a.open("file"); err == nil {
		f.Close()
		t.Error("got a file through a link, want an error")
	}
	for _, place := range []string{"a/dir", "a/dir/..", "a/dir/x"} {
		if d, err := top.sub(place); err == nil {
			d.close()
			t.Errorf("got the directory %s through a link, want an error", place)
		}
	}
}

// A look that misses both names of a file, as it is renamed meanwhile, does not take it
// for lost; nor does one that sees a file go which was read.
func TestGoneMeanwhile(t *testing.T) {
	const renamed, read = "2026-11-21T00_00_00Z", "2026-11-21T00_01_00Z"
	path := t.TempDir()
	if err := os.Mkdir(filepath.Join(path, "audit-channel"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(path, "audit-channel", renamed+".log"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	gaps := &Gaps{}
	v, err := Open(Options{Path: path, StateDir: disk.At(t.TempDir()), Failures: failures.New(log, ""), Gaps: gaps, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	top, err := openTop(path)
	if err != nil {
		t.Fatal(err)
	}
	defer top.close()
	l := &look{scanner: &scanner{v: v}}
	l.missed("audit-channel", renamed+".txt", parseName(renamed+".txt"))
	v.state.Done[fileID("audit-channel", read, 12345)] = doneFile{Channel: "audit-channel", Size: 1}
	l.missed("audit-channel", read+".log", parseName(read+".log"))
	if got := len(v.state.Seen); got != 1 {
		t.Errorf("got %d files noted, want the one that was not read", got)
	}
	l.goneFiles(top)
	if got := gaps.Lost(); got != 0 || !l.again {
		t.Errorf("got %d lost and another look: %v, want none lost and another look", got, l.again)
	}
}

// A file that has grown since it was looked at, or is another by now, is not deleted.
func TestOnlyWhatWasReadIsDeleted(t *testing.T) {
	const name = "2026-11-21T00_00_00Z.log"
	for change, test := range map[string]struct {
		make func(place string) error
		stay bool
	}{
		"none":       {func(string) error { return nil }, false},
		"it grows":   {func(place string) error { return os.WriteFile(place, []byte("{}\n{}\n"), 0o600) }, true},
		"it shrinks": {func(place string) error { return os.Truncate(place, 1) }, true},
		"it is another file": {func(place string) error {
			return errors.Join(os.Rename(place, place+".old"), os.WriteFile(place, []byte("{}\n"), 0o600))
		}, true},
	} {
		t.Run(change, func(t *testing.T) {
			path := t.TempDir()
			place := filepath.Join(path, name)
			if err := os.WriteFile(place, []byte("{}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			d, err := openTop(path)
			if err != nil {
				t.Fatal(err)
			}
			defer d.close()
			info, err := d.stat(name)
			if err != nil {
				t.Fatal(err)
			}
			if err := test.make(place); err != nil {
				t.Fatal(err)
			}
			if err := removeUnchanged(d, found{file: name, info: info}); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(place); (err == nil) != test.stay {
				t.Errorf("got %v of the file, want it to stay: %v", err, test.stay)
			}
		})
	}
}
