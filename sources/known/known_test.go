package known

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/docket-export/docket/internal/disk"
)

func id(n int) ID { return Of(fmt.Appendf(nil, "record %d", n)) }

// open opens the log in dir and restores it.
func open(t *testing.T, dir string, acked uint64) *Log {
	t.Helper()
	l, _, err := Open(disk.At(dir))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Restore(acked); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// add adds records that must be new, and syncs.
func add(t *testing.T, l *Log, records ...int) {
	t.Helper()
	for _, n := range records {
		if number, isNew := l.Add(id(n)); !isNew {
			t.Fatalf("record %d: got number %d, want it to be new", n, number)
		}
	}
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
}

// known returns which of the records from 1 to n are known, and takes back what it added.
func known(l *Log, n int) []int {
	var found []int
	next := l.Next()
	for i := 1; i <= n; i++ {
		if _, isNew := l.Add(id(i)); !isNew {
			found = append(found, i)
		}
	}
	l.Cut(next)
	return found
}

func checkKnown(t *testing.T, l *Log, n int, want ...int) {
	t.Helper()
	if got := fmt.Sprint(known(l, n)); got != fmt.Sprint(want) {
		t.Errorf("got the known records %s, want %v", got, want)
	}
}

// few is by how much fewer of something a short test has.
func few(n int) int {
	if testing.Short() {
		return n
	}
	return 1
}

func TestRestore(t *testing.T) {
	tests := map[string]struct {
		acked uint64 // what the queue says; 5 were added, of which 3 were told to be settled
		want  []int
		next  uint64
	}{
		"all stored":                 {5, []int{1, 2, 3, 4, 5}, 6},
		"some never submitted":       {4, []int{1, 2, 3, 4}, 5},
		"more stored than logged":    {9, []int{1, 2, 3, 4, 5}, 10},
		"the queue was put back":     {2, []int{1, 2}, 3},
		"the position was forgotten": {0, []int{1, 2, 3}, 4},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l := open(t, dir, 0)
			add(t, l, 1, 2, 3)
			l.Settled(3)
			add(t, l, 4, 5)
			l.Close()

			again := open(t, dir, tt.acked)
			if again.Next() != tt.next {
				t.Errorf("got the next number %d, want %d", again.Next(), tt.next)
			}
			checkKnown(t, again, 6, tt.want...)
		})
	}
}

// After Mark everything settled is known, even to a queue that has forgotten it.
func TestMark(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, 0)
	add(t, l, 1, 2, 3)
	l.Settled(3)
	l.Mark()
	l.Mark()
	l.Close()
	checkKnown(t, open(t, dir, 0), 4, 1, 2, 3)
}

// Records without an identity take numbers, and are never known.
func TestNoIdentity(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, 0)
	for want := range uint64(3) {
		if number, isNew := l.Add(ID{}); number != want+1 || !isNew {
			t.Fatalf("got number %d, new %v, want %d and true", number, isNew, want+1)
		}
	}
	before := l.end
	if err := l.Sync(); err != nil || l.end != before {
		t.Errorf("got %d bytes written, error %v, want none", l.end-before, err)
	}
	if _, isNew := l.Add(ID{}); !isNew {
		t.Error("got a record without identity for known")
	}
	add(t, l, 1)
	l.Close()
	checkKnown(t, open(t, dir, 5), 2, 1)
}

// Whatever happens to the file, no record is known that was not stored; and cut at any
// byte it has what comes before.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, 0)
	add(t, l, 1, 2, 3)
	l.Settled(3)
	add(t, l, 4, 5)
	l.Cut(4) // 4 and 5 were never stored
	add(t, l, 6, 7)
	l.Settled(5)
	add(t, l, 8) // stored as number 6
	path := filepath.Join(dir, fileName)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	whole = whole[:l.end+64]
	l.Close()

	checks := 0
	check := func(what string, data []byte, atLeast int) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		checks++
		for _, acked := range []uint64{6, 0} {
			if acked == 0 && checks%8 > 0 {
				continue // each check costs some syncs
			}
			again, _, err := Open(disk.At(dir))
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			next, err := again.Restore(acked)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if next <= acked {
				t.Errorf("%s: got the next number %d, of a record that is stored", what, next)
			}
			found := known(again, 9)
			again.Close()
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			for _, n := range found {
				if n == 4 || n == 5 || n == 9 {
					t.Errorf("%s, acked %d: got record %d for known, which was never stored", what, acked, n)
				}
			}
			if len(found) < atLeast && acked > 0 {
				t.Errorf("%s: got the known records %v, want %d of them", what, found, atLeast)
			}
		}
	}
	ends := map[int]int{} // by offset, how many records the entries before it have
	records, offset := 0, 0
	for offset < int(l.end) {
		size := entryAt(whole[offset:])
		records += (size - entryHeader) / len(ID{})
		offset += size
		ends[offset] = records
	}
	atLeast := 0
	for n := range len(whole) + 1 {
		if records, ok := ends[n]; ok {
			atLeast = records
		}
		if n%few(3) == 0 {
			check(fmt.Sprintf("cut at %d", n), whole[:n], atLeast)
		}
		if n%8 > 0 {
			continue
		}
		check(fmt.Sprintf("zeros from %d", n), append(append([]byte(nil), whole[:n]...), make([]byte, len(whole)-n)...), atLeast)
	}
	for at := 0; at < len(whole); at += few(3) {
		flipped := append([]byte(nil), whole...)
		flipped[at] ^= 1 << (at % 8)
		check(fmt.Sprintf("a bit of byte %d flipped", at), flipped, 3)
	}
	check("nothing", nil, 0)
}

// At least the last Window records are known, before and after a restart, and the file
// and the memory stay bounded.
func TestWindow(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, 0)
	const total, group = 5*Window + 17, 1000
	for n := 0; n < total; n += group {
		for i := range group {
			l.Add(id(n + i))
		}
		if err := l.Sync(); err != nil {
			t.Fatal(err)
		}
		l.Settled(l.Next() - 1)
		if info, err := os.Stat(filepath.Join(dir, fileName)); err != nil || info.Size() > maxFile+2*ahead {
			t.Fatalf("got a file of %d bytes (%v), want at most %d", info.Size(), err, maxFile+2*ahead)
		}
	}
	last := int(l.Next() - 1)
	check := func(l *Log) {
		t.Helper()
		if got := l.window.size; got != Window || len(l.window.numbers) != Window {
			t.Errorf("got %d records and %d numbers in memory, want %d", got, len(l.window.numbers), Window)
		}
		for n := last - Window; n < last; n++ {
			if number, isNew := l.Add(id(n)); isNew || number != uint64(n+1) {
				t.Fatalf("record %d of %d: got number %d, new %v, want it known", n, last, number, isNew)
			}
		}
	}
	check(l)
	l.Close()
	check(open(t, dir, uint64(last)))
}

// Records under way stay known beyond the window: one that comes again must wait for them.
func TestWindowUnderWay(t *testing.T) {
	l := open(t, t.TempDir(), 0)
	for n := range Window + 100 {
		l.Add(id(n))
	}
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	l.Settled(10)
	if _, isNew := l.Add(id(50)); isNew {
		t.Error("got a record under way for new")
	}
	if _, isNew := l.Add(id(5)); !isNew {
		t.Error("got a record before the window for known")
	}
}

// When the disk takes nothing, Sync says so; once it does, the log goes on and has what
// was stored, and only that.
func TestDiskFails(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, 0)
	add(t, l, 1, 2)
	l.Settled(2)
	l.file.Close() // every write fails from now on
	obstacle := filepath.Join(dir, fileName+".new")
	if err := os.Mkdir(obstacle, 0o700); err != nil { // and no new file can be made
		t.Fatal(err)
	}
	for range 3 {
		first := l.Next()
		l.Add(id(3))
		if err := l.Sync(); err == nil {
			t.Fatal("got no error of a log that cannot be written")
		}
		l.Cut(first)
		checkKnown(t, l, 4, 1, 2)
	}
	if err := os.Remove(obstacle); err != nil {
		t.Fatal(err)
	}
	add(t, l, 4)
	l.Close()
	checkKnown(t, open(t, dir, 3), 4, 1, 2, 4)
}

// A directory that cannot be made is an error of Restore.
func TestNoDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := Open(disk.At(file).Join("state"))
	if !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("got %v, want an error that says it is no directory", err)
	}
}

// Crashes at every step, in any order: what is stored is known or was never logged, and
// what is known is stored.
func TestCrashModel(t *testing.T) {
	for seed := range uint64(20 / few(5)) {
		random := rand.New(rand.NewPCG(seed, 1))
		dir := t.TempDir()
		var stored []int // by number, less 1
		record := 0
		for range 8 {
			l := open(t, dir, uint64(len(stored)))
			if found := known(l, record); len(found) != len(stored) {
				t.Fatalf("seed %d: got %d known records, want the %d stored", seed, len(found), len(stored))
			}
			for range random.IntN(4) {
				first, group := l.Next(), 1+random.IntN(5)
				for range group {
					record++
					l.Add(id(record))
				}
				if random.IntN(8) == 0 {
					break // a crash before the sync
				}
				if err := l.Sync(); err != nil {
					t.Fatal(err)
				}
				took := random.IntN(group + 1) // the queue is full, or the process dies
				for i := range took {
					stored = append(stored, record-group+1+i)
				}
				if random.IntN(8) == 0 {
					break
				}
				l.Cut(first + uint64(took))
				l.Settled(uint64(len(stored)))
			}
			l.Close()
		}
	}
}
