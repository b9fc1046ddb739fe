package deadletter

import (
	"bytes"
	"errors"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// damageLog returns a log made of four changes, each of which was synced: letters
// 1 and 2, letter 3, 1 redriven, letter 4 and a second letter 2.
func damageLog(t *testing.T) []byte {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "siem")
	s := mustOpen(t, dir, Options{})
	mustAdd(t, s, testLetter(1, `{"one":1}`), testLetter(2, `{"two":2}`))
	mustAdd(t, s, testLetter(3, `{"three":3}`))
	if _, err := s.Redrive([]uint64{1}); err != nil {
		t.Fatal(err)
	}
	mustAdd(t, s, testLetter(4, `{"four":4}`), testLetter(2, `{"again":2}`))
	return readFile(t, filepath.Join(dir, logFile))
}

// A last line without a newline is cut. Any other damage costs the lines it is in: the whole log is
// set aside before it is written anew.
func TestDamage(t *testing.T) {
	whole := damageLog(t)
	for name, tt := range map[string]struct {
		log   []byte
		want  string // seqs, "r" behind those that redrive, and "'" behind the second letter 2
		aside bool
		says  string // in the log; empty: nothing
	}{
		"none":              {whole, "1r 2' 3 4", false, ""},
		"torn last line":    {whole[:len(whole)-5], "1r 2 3 4", false, "level=INFO"},
		"no last newline":   {whole[:len(whole)-1], "1r 2 3 4", false, "level=INFO"},
		"garbage behind":    {append(bytes.Clone(whole), "xyz"...), "1r 2' 3 4", false, "level=INFO"},
		"zeros behind":      {append(bytes.Clone(whole), make([]byte, 5000)...), "1r 2' 3 4", false, "level=INFO"},
		"in a record":       {flip(whole, `three`), "1r 2' 4", true, "level=WARN"},
		"in the last line":  {flip(whole, `again`), "1r 2 3 4", true, "level=WARN"},
		"in what was said":  {flip(whole, `"reason"`), "2' 3 4", true, "level=WARN"},
		"a change of state": {flip(whole, `redrive`), "1 2' 3 4", true, "level=WARN"},
		"the first line":    {flip(whole, `version`), "1r 2' 3 4", true, "level=WARN"},
		"a newline":         {bytes.Replace(whole, []byte("{\"one\":1}}\n"), []byte("{\"one\":1}}\v"), 1), "2' 3 4", true, "level=WARN"},
		"two lines":         {flip(flip(whole, `"one"`), `"two"`), "2' 3 4", true, "level=WARN"},
		"a long line":       {append(bytes.Repeat([]byte("x"), maxLine+10), append([]byte("\n"), whole...)...), "1r 2' 3 4", true, "level=WARN"},
		"all of it":         {bytes.Repeat([]byte("rubbish\n"), 10), "", true, "level=WARN"},
		"only zeros":        {make([]byte, 100), "", false, "level=INFO"},
		"empty":             {nil, "", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, logFile), tt.log, 0o600); err != nil {
				t.Fatal(err)
			}
			var log strings.Builder
			s := mustOpen(t, dir, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
			aside := ""
			if tt.aside {
				aside = string(tt.log)
			}
			if got := statesOf(t, s); got != tt.want {
				t.Errorf("got letters %q, want %q", got, tt.want)
			}
			if got := asideIn(t, dir); got != aside {
				t.Errorf("got set aside\n%.300q\nwant\n%.300q", got, aside)
			}
			if got := log.String(); !strings.Contains(got, tt.says) || tt.says == "" && got != "" {
				t.Errorf("got log %q, want %q in it", got, tt.says)
			}

			// It is done with: the store works, and the next start finds nothing.
			mustAdd(t, s, testLetter(9, "{}"))
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			log.Reset()
			s = mustOpen(t, dir, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
			if got, want := statesOf(t, s), strings.TrimSpace(tt.want+" 9"); got != want || log.Len() > 0 {
				t.Errorf("opened again: got letters %q, log %q, want %q and no log", got, log.String(), want)
			}
			if got := asideIn(t, dir); got != aside {
				t.Errorf("opened again: got set aside %.300q, want %.300q", got, aside)
			}
		})
	}
}

func statesOf(t *testing.T, s *Store) string {
	t.Helper()
	var states []string
	for _, seq := range seqs(t, s) {
		l, ok, err := s.Get(seq)
		if !ok || err != nil {
			t.Fatalf("get %d: got %v, %v, want it", seq, ok, err)
		}
		state := string(rune('0' + seq))
		if l.Redriving {
			state += "r"
		}
		if strings.Contains(string(l.Record), "again") {
			state += "'"
		}
		states = append(states, state)
	}
	return strings.Join(states, " ")
}

// asideIn is what was set aside in dir, in one piece.
func asideIn(t *testing.T, dir string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, damagedPrefix+"*"))
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	for _, name := range names {
		all = append(all, readFile(t, name)...)
	}
	return string(all)
}

// A letter that goes bad while the store is open holds up no other, can be seen,
// replaced and removed, and a new log sets it aside.
func TestDamageUnderWay(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "siem")
	var log strings.Builder
	s := mustOpen(t, dir, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	mustAdd(t, s, testLetter(1, `{"one":1}`), testLetter(2, `{"two":2}`), testLetter(3, `{"three":3}`))
	if _, err := s.Redrive(nil); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, logFile)
	b := readFile(t, name)
	damaged := flip(flip(b, `"two"`), `"reason"`) // the record of 2, and what is said of 1
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(damaged, 0); err != nil {
		t.Fatal(err)
	}

	for range 2 {
		list, err := s.NextRedriving(math.MaxUint64, 10, 10000)
		if len(list) != 1 || list[0].Seq != 3 || err != nil {
			t.Errorf("NextRedriving: got %v, %v, want letter 3 alone", list, err)
		}
	}
	if got, want := strings.Count(log.String(), "cannot be read"), 2; got != want {
		t.Errorf("got %d complaints, want %d, one a letter:\n%s", got, want, log.String())
	}
	letters, err := s.Page(0, 10)
	if err != nil || len(letters) != 3 || !strings.Contains(letters[1].Reason, ErrDamaged.Error()) || letters[2].Reason != "the server answered 422" {
		t.Errorf("Page: got %v, %v, want three letters, two with their damage", letters, err)
	}
	if _, ok, err := s.Get(2); !ok || err == nil || !strings.Contains(err.Error(), "record 2: damaged on disk") {
		t.Errorf("Get: got %v, %v, want that it is there and damaged", ok, err)
	}
	mustAdd(t, s, testLetter(1, `{"new":1}`))
	if l, ok, err := s.Get(1); !ok || err != nil || string(l.Record) != `{"new":1}` || l.Attempts != 1 {
		t.Errorf("replaced: got %+v, %v, %v, want the new letter", l, ok, err)
	}

	s.mu.Lock()
	err = s.rewrite()
	s.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := seqs(t, s), []uint64{1, 3}; !slices.Equal(got, want) {
		t.Errorf("a new log: got letters %v, want %v", got, want)
	}
	if got := asideIn(t, dir); !strings.HasPrefix(got, string(damaged)) {
		t.Errorf("a new log: got set aside %q, want the log as it was", got)
	}
}

// Damage that cannot be set aside is kept where it is: letters are read, and
// nothing is changed until it can be.
func TestDamageThatStays(t *testing.T) {
	whole := damageLog(t)
	d := newTestDisk(newDice())
	err := d.place().MakeDir()
	if err == nil {
		err = d.place().Join(logFile).WriteNew(flip(whole, "three"))
	}
	if err != nil {
		t.Fatal(err)
	}
	d.restart()
	full := true
	d.fails = func(_ int, kind string) error {
		if full && kind == "create" {
			return faults[1]
		}
		return nil
	}
	var log strings.Builder
	s, err := open(d.place(), Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := statesOf(t, s), "1r 2' 4"; got != want || !strings.Contains(log.String(), "cannot be set aside yet") {
		t.Errorf("got letters %q, log %q, want %q and a complaint", got, log.String(), want)
	}
	if err := s.Add([]Letter{testLetter(9, "{}")}); err == nil || len(d.files(damagedPrefix)) != 0 || !bytes.Equal(d.File(filepath.Join(testDir, logFile)).Content(), flip(whole, "three")) {
		t.Errorf("added to a damaged log: %v", err)
	}
	// To remove all needs no space: the log keeps its bytes under another name.
	if n, err := s.Remove(nil); n != 3 || err != nil {
		t.Errorf("Remove(nil) = %d, %v, want 3", n, err)
	}
	aside := d.files(damagedPrefix)
	if len(aside) != 1 || !bytes.Equal(d.File(aside[0]).Content(), flip(whole, "three")) {
		t.Errorf("set aside %v, want the damaged log", aside)
	}
	full = false
	mustAdd(t, s, testLetter(9, "{}"))
	if got, want := statesOf(t, s), "9"; got != want {
		t.Errorf("with space again: got letters %q, want %q", got, want)
	}
}

// A write that fails half-way leaves nothing in the log, or the log is not used any
// more.
func TestShortWrite(t *testing.T) {
	for name, tt := range map[string]struct {
		alsoFails string
		creates   int // new logs that the next change makes
	}{
		"taken back":                {"", 0},
		"that cannot be taken back": {"truncate", 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSession(t, newDice())
			mustAdd(t, s.store, testLetter(1, "{}"))
			log := s.disk.File(filepath.Join(testDir, logFile))
			before := bytes.Clone(log.Content())
			s.disk.fails = func(_ int, kind string) error {
				if kind == "write" || kind == tt.alsoFails {
					return faults[1]
				}
				return nil
			}
			for range 20 {
				if err := s.store.Add([]Letter{testLetter(2, "{}")}); !errors.Is(err, faults[1]) {
					t.Fatalf("got error %v, want %v", err, faults[1])
				}
				if tt.alsoFails == "" && !bytes.Equal(log.Content(), before) {
					t.Fatalf("got log\n%s\nwant it as it was:\n%s", log.Content(), before)
				}
			}
			s.disk.fails = nil
			creates := s.disk.seen["create"]
			mustAdd(t, s.store, testLetter(3, "{}"))
			if got := s.disk.seen["create"] - creates; got != tt.creates {
				t.Errorf("got %d new logs, want %d", got, tt.creates)
			}
			if got, want := seqs(t, s.store), []uint64{1, 3}; !slices.Equal(got, want) {
				t.Errorf("got letters %v, want %v", got, want)
			}
		})
	}
}
