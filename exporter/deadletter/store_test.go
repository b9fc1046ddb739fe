package deadletter

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/disk/crashdisk"
	"github.com/docket-export/docket/internal/fileversion"
)

// testLetter is a letter with this seq and record.
func testLetter(seq uint64, record string) Letter {
	return Letter{
		Seq: seq, Source: "webhook", Received: began, Reason: "the server answered 422", Status: "422", Answer: "no",
		Attempts: 1, FirstFailed: began, LastFailed: began, Record: []byte(record),
	}
}

func mustOpen(t *testing.T, dir string, o Options) *Store {
	t.Helper()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func mustAdd(t *testing.T, s *Store, letters ...Letter) {
	t.Helper()
	if err := s.Add(letters); err != nil {
		t.Fatal(err)
	}
}

// seqs returns those of the letters in s.
func seqs(t *testing.T, s *Store) (list []uint64) {
	t.Helper()
	letters, err := s.Page(0, math.MaxInt)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range letters {
		list = append(list, l.Seq)
	}
	return list
}

// The format is a promise to the next version, and to people who look at the file.
func TestFormat(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deadletters", "siem")
	s := mustOpen(t, dir, Options{})
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want no directory before the first letter", err)
	}
	mustAdd(t, s, testLetter(3, `{"a":1}`), testLetter(5, ` {"b": 2} `), testLetter(9, `{}`))
	for _, seqs := range [][]uint64{{9, 3, 4}, nil} {
		if _, err := s.Redrive(seqs); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Remove([]uint64{5, 9}); err != nil {
		t.Fatal(err)
	}
	const about = `"source":"webhook","received":"2026-01-02T03:04:05.000000678Z","reason":"the server answered 422","status":"422",` +
		`"answer":"no","attempts":1,"firstFailed":"2026-01-02T03:04:05.000000678Z","lastFailed":"2026-01-02T03:04:05.000000678Z","record":`
	want := `ade14503 {"version":2}
e23d1cb6 {"seq":3,` + about + `{"a":1}}
6659dbc6 {"seq":5,` + about + ` {"b": 2} }
2aef7f2e {"seq":9,` + about + `{}}
f7e5ef2b {"redrive":[3,9]}
862326e3 {"redrive":[5]}
154f1e73 {"remove":[5,9]}
`
	if got := string(readFile(t, filepath.Join(dir, logFile))); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for path, want := range map[string]os.FileMode{dir: 0o700 | os.ModeDir, filepath.Dir(dir): 0o700 | os.ModeDir, filepath.Join(dir, logFile): 0o600} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != want {
			t.Errorf("got mode %v of %s, want %v", info.Mode(), path, want)
		}
	}
}

// The bound holds for the letters, not for what is removed, and one that does not fit
// changes nothing.
func TestBound(t *testing.T) {
	letter := func(seq uint64) Letter { return testLetter(seq, `{"x":"`+strings.Repeat("x", 1000)+`"}`) }
	s := mustOpen(t, filepath.Join(t.TempDir(), "siem"), Options{MaxBytes: 4000})
	mustAdd(t, s, letter(1), letter(2), letter(3))
	err := s.Add([]Letter{letter(4)})
	if !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "there are 3, and with the new ones they would take ") {
		t.Errorf("got error %v, want ErrFull with the numbers", err)
	}
	if got := s.Stats(); got.Letters != 3 || got.Bytes > got.MaxBytes || got.MaxBytes != 4000 {
		t.Errorf("got %+v, want 3 letters within 4000 bytes", got)
	}
	mustAdd(t, s, letter(2)) // in the place of another
	for seq := uint64(5); seq < 30; seq++ {
		if _, err := s.Remove([]uint64{seq - 1, 1, 2}); err != nil {
			t.Fatal(err)
		}
		mustAdd(t, s, letter(seq))
	}
	if got, want := seqs(t, s), []uint64{3, 29}; !slices.Equal(got, want) {
		t.Errorf("got letters %v, want %v", got, want)
	}
}

// A log that holds little but what was removed is written anew; the last letter
// takes it along.
func TestCompaction(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "siem")
	s := mustOpen(t, dir, Options{})
	large := strings.Repeat("x", 100<<10)
	mustAdd(t, s, testLetter(1, "{}"))
	for seq := uint64(2); seq < 30; seq++ {
		mustAdd(t, s, testLetter(seq, large))
		if _, err := s.Remove([]uint64{seq}); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(filepath.Join(dir, logFile))
		if err != nil {
			t.Fatal(err)
		}
		if limit := int64(defaultSlack + 2*len(large)); info.Size() > limit {
			t.Fatalf("got a log of %d bytes, want at most %d", info.Size(), limit)
		}
	}
	if l, ok, err := s.Get(1); !ok || err != nil || string(l.Record) != "{}" {
		t.Errorf("got %+v, %v, %v, want the letter as it was", l, ok, err)
	}
	if n, err := s.Remove(nil); n != 1 || err != nil {
		t.Errorf("got %d, %v, want 1 removed", n, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("got %v, %v, want no file without a letter", entries, err)
	}
}

// A store never has more than three times its bound on disk, at any step, and comes
// close: a volume is sized by it.
func TestDiskBytes(t *testing.T) {
	const bound = 100_000
	dir := t.TempDir()
	var peak int64
	steps := &crashdisk.Steps{}
	steps.Boot(disk.OS(dir), func() {})
	steps.Script = func(string, string, []byte) crashdisk.Fault {
		var size int64
		entries, err := os.ReadDir(dir)
		for _, e := range entries {
			if info, err := e.Info(); err == nil {
				size += info.Size()
			}
		}
		peak = max(peak, size)
		return crashdisk.Fault{Err: err}
	}
	s, err := open(disk.On(steps, dir), Options{MaxBytes: bound})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.slack = 1000
	large := `{"x":"` + strings.Repeat("x", 1000) + `"}`
	last := uint64(0)
	for err == nil {
		last++
		err = s.Add([]Letter{testLetter(last, large)})
	}
	if !errors.Is(err, ErrFull) {
		t.Fatal(err)
	}
	for range 3 { // all are redriven, and rejected again
		if _, err := s.Redrive(nil); err != nil {
			t.Fatal(err)
		}
		for seq := uint64(1); seq < last; seq++ {
			mustAdd(t, s, testLetter(seq, large))
		}
	}
	if least := int64(5 * bound / 2); peak > 3*bound+2*int64(len(large)) || peak < least {
		t.Errorf("got %d bytes on disk at most, want between %d and three times %d", peak, least, bound)
	}
}

func TestNextRedriving(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "siem"), Options{})
	for seq := uint64(1); seq <= 5; seq++ {
		mustAdd(t, s, testLetter(seq, strings.Repeat("x", 100*int(seq))))
	}
	if _, err := s.Redrive([]uint64{2, 3, 5}); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		records, bytes int
		want           []uint64
	}{
		"all":                {10, 10000, []uint64{2, 3, 5}},
		"records":            {2, 10000, []uint64{2, 3}},
		"bytes, to the last": {10, 500, []uint64{2, 3}},
		"bytes, one less":    {10, 499, []uint64{2}},
		"one whatever":       {10, 1, []uint64{2}},
	} {
		t.Run(name, func(t *testing.T) {
			list, err := s.NextRedriving(math.MaxUint64, tt.records, tt.bytes)
			var got []uint64
			for _, l := range list {
				got = append(got, l.Seq)
			}
			if !slices.Equal(got, tt.want) || err != nil {
				t.Errorf("got %v, %v, want %v", got, err, tt.want)
			}
		})
	}
}

// What cannot be kept as a line is refused, and nothing changes.
func TestAddRefuses(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "siem"), Options{})
	for name, record := range map[string][]byte{
		"newline":  []byte("{\n}"),
		"too long": bytes.Repeat([]byte("x"), maxLine),
	} {
		t.Run(name, func(t *testing.T) {
			l := testLetter(2, "")
			l.Record = record
			if err := s.Add([]Letter{testLetter(1, "{}"), l}); err == nil || !strings.Contains(err.Error(), "record 2: ") {
				t.Errorf("got error %v, want one about record 2", err)
			}
			if got := s.Stats(); got.Letters != 0 {
				t.Errorf("got %+v, want nothing", got)
			}
		})
	}
}

// A log of another version is left as it is.
func TestOtherVersions(t *testing.T) {
	newer, err := (&line{Version: 3}).append(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, log := range [][]byte{newer, []byte("05ef15e4 log 0 1\n")} {
		dir := t.TempDir()
		name := filepath.Join(dir, logFile)
		if err := os.WriteFile(name, log, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir, Options{}); !errors.As(err, new(*fileversion.Error)) {
			t.Errorf("got error %v, want that the log is of another docket", err)
		}
		if got := readFile(t, name); !bytes.Equal(got, log) {
			t.Errorf("got log %q, want it as it was", got)
		}
	}
}

// TestConcurrent is for the race detector.
func TestConcurrent(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "siem"), Options{})
	s.slack = 4000
	var all sync.WaitGroup
	for worker := range uint64(4) {
		all.Go(func() {
			for n := range uint64(20) {
				seq := worker*100 + n + 1
				if err := s.Add([]Letter{testLetter(seq, fmt.Sprintf(`{"n":%d}`, seq))}); err != nil {
					t.Error(err)
				}
				if _, err := s.Redrive([]uint64{seq}); err != nil {
					t.Error(err)
				}
				if n%2 == 0 {
					if _, err := s.Remove([]uint64{seq}); err != nil {
						t.Error(err)
					}
				}
			}
		})
		all.Go(func() {
			for n := range uint64(20) {
				seq := worker*100 + n + 1
				l, ok, err := s.Get(seq)
				if want := fmt.Sprintf(`{"n":%d}`, seq); err != nil || ok && string(l.Record) != want {
					t.Errorf("got %q, %v, want %q", l.Record, err, want)
				}
				if _, err := s.Page(0, 10); err != nil {
					t.Error(err)
				}
				if _, err := s.NextRedriving(math.MaxUint64, 10, 1000); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if got, want := s.Stats().Letters, 40; got != want {
		t.Errorf("got %d letters, want %d", got, want)
	}
}

// A letter is named by the id of its record, or by its seq. An id with the seq of a letter that is
// not the letter's own belongs to another record.
func TestFind(t *testing.T) {
	const queue, earlier, later = "0f6c0000-0000-4000-8000-000000000001", "0f6c0000-0000-4000-8000-000000000002", "0f6c0000-0000-4000-8000-000000000003"
	s := mustOpen(t, t.TempDir(), Options{})
	letter := func(seq uint64, incarnation string) Letter {
		l := testLetter(seq, "{}")
		l.Incarnation = incarnation
		return l
	}
	mustAdd(t, s, letter(7, queue), letter(17, earlier), letter(18, later))
	for text, want := range map[string]uint64{
		ID(queue, 7): 7, ID(earlier, 17): 17, ID(later, 18): 18, "17": 17,
		ID(later, 17): 0, ID(queue, 17): 0, ID(earlier, 9): 0, "9": 0, "18446744073709551615": 0,
	} {
		if seq, ok, err := s.Find(text); err != nil || ok != (want > 0) || ok && seq != want {
			t.Errorf("%q: got %d, %v, %v, want %d", text, seq, ok, err, want)
		}
	}
	for _, text := range []string{"0", "", "x", "-5", "1.5", queue, queue + "-", queue + "-0"} {
		if _, _, err := s.Find(text); !errors.As(err, new(*IDError)) {
			t.Errorf("%q: got %v, want that it is no id", text, err)
		}
	}
	seqs, unknown, err := s.FindAll(Change{IDs: []string{"17", ID(later, 17), "18"}})
	if err != nil || !slices.Equal(seqs, []uint64{17, 18}) || !slices.Equal(unknown, []string{ID(later, 17)}) {
		t.Errorf("got %v, unknown %v, %v", seqs, unknown, err)
	}
	if seqs, _, err := s.FindAll(Change{IDs: []string{"3"}}); err != nil || seqs == nil {
		t.Errorf("got %v, %v: nil stands for all letters", seqs, err)
	}
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// flip returns a copy of b with one bit of the first place of text changed.
func flip(b []byte, text string) []byte {
	b = bytes.Clone(b)
	b[bytes.Index(b, []byte(text))] ^= 4
	return b
}
