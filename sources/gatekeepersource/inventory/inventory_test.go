package inventory

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

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

// openAt opens the inventory of path with a state of its own.
func openAt(t *testing.T, path string) *Inventory {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	v, err := Open(Options{Path: path, StateDir: disk.At(t.TempDir()), Failures: failures.New(log, ""), Gaps: &Gaps{}, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return v
}

// A file that is missing from one look, as it is renamed meanwhile, is not taken for lost; nor
// is one that goes after it was read. One that is missing from two looks is.
func TestGoneMeanwhile(t *testing.T) {
	const gone, read = "2026-11-21T00_00_00Z", "2026-11-21T00_01_00Z"
	path := t.TempDir()
	if err := os.Mkdir(filepath.Join(path, "audit-channel"), 0o700); err != nil {
		t.Fatal(err)
	}
	v := openAt(t, path)
	l := &look{Inventory: v}
	l.missed("audit-channel", gone+".txt", parseName(gone+".txt"))
	v.state.Done[fileID("audit-channel", read, 12345)] = doneFile{Channel: "audit-channel", Size: 1}
	l.missed("audit-channel", read+".log", parseName(read+".log"))
	if got := len(v.state.Seen); got != 1 {
		t.Errorf("got %d files noted, want the one that was not read", got)
	}
	for looks, want := range []uint64{0, 1, 1} {
		if v.scan(); v.Gaps.Lost() != want {
			t.Errorf("after look %d: got %d lost, want %d", looks+1, v.Gaps.Lost(), want)
		}
	}
}

// What waits to be read is bounded, and so is what is known of channels that are gone.
func TestBounds(t *testing.T) {
	v := openAt(t, t.TempDir())
	for n := range maxClaims {
		if !v.room() {
			t.Fatalf("got no room for claim %d, want it for %d", n, maxClaims)
		}
		v.claims[strconv.Itoa(n)] = &claim{}
	}
	if v.room() {
		t.Error("got room for more claims, want none")
	}
	clear(v.claims)
	for n := range 2 * maxChannels {
		v.SetChannel(strconv.Itoa(n), func(*Channel) {})
	}
	if v.scan(); len(v.state.Channels) != maxChannels {
		t.Errorf("got %d channels, want %d", len(v.state.Channels), maxChannels)
	}
}

// A file that cannot be linked is copied, and is what it was when it was claimed.
func TestCopiedWhereItCannotBeLinked(t *testing.T) {
	const name = "2026-11-21T00_00_00Z.log"
	path := t.TempDir()
	if err := os.WriteFile(filepath.Join(path, name), []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	v := openAt(t, path)
	top, err := openTop(path)
	if err != nil {
		t.Fatal(err)
	}
	defer top.close()
	info, err := top.stat(name)
	if err != nil {
		t.Fatal(err)
	}
	// Another file has its place on the shelf: no link can be made.
	c := newClaim(".", name, info.inode)
	if err := errors.Join(v.shelf().MakeDir(), v.shelf(claimName(c.File)).WriteNew([]byte("other"))); err != nil {
		t.Fatal(err)
	}
	v.scan()
	if err := os.Remove(filepath.Join(path, name)); err != nil {
		t.Fatal(err)
	}
	f, ok := v.Next(time.Now())
	content, closeFile, err := v.Content(f)
	if !ok || err != nil {
		t.Fatalf("got %v, %v, want the file", ok, err)
	}
	defer closeFile()
	if text, err := io.ReadAll(content); string(text) != "{}\n" || err != nil || f.Size != 3 || f.Inode != info.inode {
		t.Errorf("got %q, %v of %+v, want what Gatekeeper wrote", text, err, f)
	}
}

// A claim whose name on the shelf is not durable may be gone after a power cut: the state has its
// file as seen until it was read.
func TestClaimsThatAreNotDurableStaySeen(t *testing.T) {
	v := openAt(t, t.TempDir())
	c := newClaim(".", "2026-11-21T00_00_00Z.log", 1)
	v.remember(c.Channel, c.Name, c.Stem, 3)
	l := &look{Inventory: v, shelved: []*claim{c}}
	l.syncShelf() // there is no shelf that could be synced
	if len(v.state.Seen) != 1 {
		t.Error("got the file forgotten, want it noted as seen")
	}
	if err := v.shelf().MakeDir(); err != nil {
		t.Fatal(err)
	}
	if l.syncShelf(); len(v.state.Seen) != 0 {
		t.Errorf("got %v noted, want the claim alone to stand for the file", v.state.Seen)
	}
}

// The list of read files that could not be written is written by the next save, which lets go of
// the claims.
func TestStateIsSavedAfterAFailure(t *testing.T) {
	path := t.TempDir()
	if err := os.WriteFile(filepath.Join(path, "2026-11-21T00_00_00Z.log"), []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	v := openAt(t, path)
	v.scan()
	f, ok := v.Next(time.Now())
	if !ok {
		t.Fatal("got no file")
	}
	inTheWay := statePath(v.StateDir).String()
	if err := os.MkdirAll(filepath.Join(inTheWay, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	v.Finish(f)
	if err := v.Save(); err == nil || len(v.claims) != 1 {
		t.Fatalf("got error %v and %d claims while the state cannot be written, want an error and the claim kept", err, len(v.claims))
	}
	if err := os.RemoveAll(inTheWay); err != nil {
		t.Fatal(err)
	}
	if err := v.Save(); err != nil {
		t.Fatal(err)
	}
	if st, _, err := loadState(v.StateDir); err != nil || len(st.Done) != 1 || len(v.claims) != 0 {
		t.Errorf("got %v, %v on disk and %d claims, want the file noted as read, and no claim", st, err, len(v.claims))
	}
}
