package filesink

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/sinks"
)

// TestDamage harms a directory in which records 1 to 3 are finished and 4 to 9
// are in the active file, accepted as 4 to 6 and 7 to 9. It then redelivers from
// 7, as after a restart that forgot the last acceptance, and goes on to 12.
func TestDamage(t *testing.T) {
	const older, newer = 1, 0 // slots
	all := records(queueA, 1, 12)
	size := func(first, last uint64) int {
		return len(strings.Join(records(queueA, first, last), "\n")) + 1
	}
	for name, tt := range map[string]struct {
		damage     func(t *testing.T, dir string)
		exported   []string // numbered files and the active one
		unnumbered []string // files set aside
		positions  int      // position files set aside
	}{
		"none": {
			damage:   func(*testing.T, string) {},
			exported: all,
		},
		"torn tail": {
			damage:   appendTo(activePrefix, []byte(record(queueA, 10)[:9])),
			exported: all,
		},
		"whole record in the tail": {
			damage:   appendTo(activePrefix, []byte(record(queueA, 10)+"\n")),
			exported: all,
		},
		"zeros in the tail": {
			damage:   appendTo(activePrefix, make([]byte, 4096)),
			exported: all,
		},
		"newer slot damaged": {
			damage:     func(t *testing.T, dir string) { flipSlot(t, dir, newer) },
			exported:   all,
			unnumbered: records(queueA, 7, 9),
		},
		"newer slot zeroed": {
			damage:     func(t *testing.T, dir string) { zeroSlot(t, dir, newer) },
			exported:   all,
			unnumbered: records(queueA, 7, 9),
		},
		"older slot damaged": {
			damage:   func(t *testing.T, dir string) { flipSlot(t, dir, older) },
			exported: all,
		},
		"both slots damaged": {
			damage: func(t *testing.T, dir string) {
				flipSlot(t, dir, older)
				flipSlot(t, dir, newer)
			},
			exported:   slices.Concat(records(queueA, 1, 3), records(queueA, 7, 12)),
			unnumbered: records(queueA, 4, 9),
			positions:  1,
		},
		"position file empty": {
			damage: func(t *testing.T, dir string) {
				damage(t, dir, positionName, func([]byte) []byte { return nil })
			},
			exported:   slices.Concat(records(queueA, 1, 3), records(queueA, 7, 12)),
			unnumbered: records(queueA, 4, 9),
			positions:  1,
		},
		"position file cut": {
			damage: func(t *testing.T, dir string) {
				damage(t, dir, positionName, func(b []byte) []byte { return b[:slotDistance+positionSlot-1] })
			},
			exported:   slices.Concat(records(queueA, 1, 3), records(queueA, 7, 12)),
			unnumbered: records(queueA, 4, 9),
			positions:  1,
		},
		"position file gone": {
			damage:     func(t *testing.T, dir string) { remove(t, dir, positionName) },
			exported:   slices.Concat(records(queueA, 1, 3), records(queueA, 7, 12)),
			unnumbered: records(queueA, 4, 9),
		},
		"all but the finished file gone": {
			damage: func(t *testing.T, dir string) {
				remove(t, dir, positionName)
				remove(t, dir, activePrefix)
			},
			exported: slices.Concat(records(queueA, 1, 3), records(queueA, 7, 12)),
		},
		"finished file moved on": {
			damage: func(t *testing.T, dir string) {
				remove(t, dir, names(t, dir, finishedGlob)[0])
			},
			exported: records(queueA, 4, 12),
		},
		"half a position file from a crash": {
			damage: func(t *testing.T, dir string) {
				if err := os.WriteFile(filepath.Join(dir, newPositionName), []byte("half"), 0o600); err != nil {
					t.Fatal(err)
				}
			},
			exported: all,
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := mustOpen(t, rotating(dir, 0), nil)
			mustSend(t, s, batch(queueA, 1, 3))
			mustFinish(t, s)
			mustSend(t, s, batch(queueA, 4, 6))
			mustSend(t, s, batch(queueA, 7, 9))
			if got := positionOf(t, dir); got.size != int64(size(4, 9)) || got.offset() != newer*slotDistance {
				t.Fatalf("position %+v, want size %d in slot %d", got, size(4, 9), newer)
			}
			mustClose(t, s)

			tt.damage(t, dir)

			s = mustOpen(t, rotating(dir, 0), nil)
			mustSend(t, s, batch(queueA, 7, 9))
			mustSend(t, s, batch(queueA, 7, 12))
			wantLines(t, "exported", exported(t, dir), tt.exported)
			wantLines(t, "unnumbered", unnumbered(t, dir), tt.unnumbered)
			if got := len(names(t, dir, "decisions-unnumbered-*.position")); got != tt.positions {
				t.Errorf("%d position files set aside, want %d", got, tt.positions)
			}
		})
	}
}

// TestShrunk wants an active file that somebody else has cut or removed to stop
// the sink, at Open and in Send, until one of the two remedies is applied.
func TestShrunk(t *testing.T) {
	harm := map[string]func(t *testing.T, dir string){
		"cut": func(t *testing.T, dir string) {
			damage(t, dir, activePrefix, func(b []byte) []byte { return b[:len(b)-1] })
		},
		"emptied": func(t *testing.T, dir string) { damage(t, dir, activePrefix, func([]byte) []byte { return nil }) },
		"removed": func(t *testing.T, dir string) { remove(t, dir, activePrefix) },
	}
	remedy := map[string]func(t *testing.T, dir string, content []byte){
		"file put back": func(t *testing.T, dir string, content []byte) {
			if err := os.WriteFile(filepath.Join(dir, activePrefix), content, 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"position moved away": func(t *testing.T, dir string, _ []byte) { remove(t, dir, positionName) },
	}
	for harmName, harm := range harm {
		for remedyName, remedy := range remedy {
			t.Run(harmName+"/"+remedyName, func(t *testing.T) {
				dir := t.TempDir()
				s := mustOpen(t, rotating(dir, 0), nil)
				mustSend(t, s, batch(queueA, 1, 3))
				content, err := os.ReadFile(filepath.Join(dir, activePrefix))
				if err != nil {
					t.Fatal(err)
				}

				harm(t, dir)
				before := directoryContent(t, dir)
				wantKind(t, s, batch(queueA, 4, 5), sinks.Misconfigured, filepath.Join(dir, activePrefix), "seqs 1 to 3", positionName)
				mustClose(t, s)
				_, err = open(rotating(dir, 0), env(), nil)
				checkFailure(t, err, sinks.Misconfigured, filepath.Join(dir, activePrefix))
				if after := directoryContent(t, dir); after != before {
					t.Errorf("the directory was changed: got %q, want %q", after, before)
				}

				remedy(t, dir, content)
				s = mustOpen(t, rotating(dir, 0), nil)
				mustSend(t, s, batch(queueA, 4, 5))
				want := records(queueA, 4, 5)
				if remedyName == "file put back" {
					want = records(queueA, 1, 5)
				}
				wantLines(t, "exported", exported(t, dir), want)
			})
		}
	}
}

// TestFinishedSlotDamaged damages the position after a finish, so that Open reads
// the one before: an active file to be finished, where there is another by now.
func TestFinishedSlotDamaged(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, rotating(dir, 0), nil)
	mustSend(t, s, batch(queueA, 1, 3))
	mustFinish(t, s)
	newer := int(positionOf(t, dir).offset() / slotDistance)
	mustClose(t, s)
	tail := records(queueA, 4, 9)
	appendTo(activePrefix, []byte(strings.Join(tail, "\n")+"\n"))(t, dir)
	flipSlot(t, dir, newer)

	s = mustOpen(t, rotating(dir, 0), nil)
	mustSend(t, s, batch(queueA, 1, 5))
	wantLines(t, "exported", exported(t, dir), records(queueA, 1, 5))
	wantLines(t, "unnumbered", unnumbered(t, dir), tail)
}

// TestMovedWhileOpen takes a file from under an open sink.
func TestMovedWhileOpen(t *testing.T) {
	for _, name := range []string{positionName, lockName} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := mustOpen(t, rotating(dir, 0), nil)
			mustSend(t, s, batch(queueA, 1, 3))
			remove(t, dir, name)
			mustSend(t, s, batch(queueA, 4, 5))
			if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
				t.Errorf("the file was not made again: %v", err)
			}
			got := slices.Concat(unnumbered(t, dir), exported(t, dir))
			wantLines(t, "all records", got, records(queueA, 1, 5))
		})
	}
}

// TestAppendedWhileOpen wants bytes that others added to be cut before the next
// batch: a torn line in front of it would swallow a record.
func TestAppendedWhileOpen(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, rotating(dir, 0), nil)
	mustSend(t, s, batch(queueA, 1, 1))
	appendTo(activePrefix, []byte("a torn line of more bytes than the next record has"))(t, dir)
	mustSend(t, s, batch(queueA, 2, 2))
	wantLines(t, "exported", exported(t, dir), records(queueA, 1, 2))
}

// TestPositionNotBelieved wants a failure to be followed by a new position file:
// what can be read of the old one may not be on the disk.
func TestPositionNotBelieved(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, rotating(dir, 0), nil)
	mustSend(t, s, batch(queueA, 1, 1))
	old, err := os.Open(filepath.Join(dir, positionName)) // so that its inode is not used again
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	before, err := old.Stat()
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.store.broken = true
	s.mu.Unlock()
	mustSend(t, s, batch(queueA, 1, 1))
	after, err := os.Stat(filepath.Join(dir, positionName))
	if err != nil {
		t.Fatal(err)
	}
	if os.SameFile(before, after) {
		t.Error("the position file stayed in use after a failure, want a new one")
	}
}

func appendTo(name string, tail []byte) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		damage(t, dir, name, func(b []byte) []byte { return append(b, tail...) })
	}
}

func flipSlot(t *testing.T, dir string, slot int) {
	t.Helper()
	damage(t, dir, positionName, func(b []byte) []byte {
		b[slot*slotDistance+40] ^= 1
		return b
	})
}

func zeroSlot(t *testing.T, dir string, slot int) {
	t.Helper()
	damage(t, dir, positionName, func(b []byte) []byte {
		clear(b[slot*slotDistance:][:positionSlot])
		return b
	})
}

func remove(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

// unnumbered are the lines of the files set aside.
func unnumbered(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	for _, name := range names(t, dir, "decisions-unnumbered-*.ndjson*") {
		list = append(list, lines(t, filepath.Join(dir, name))...)
	}
	return list
}

// directoryContent is all that is in dir, the lock aside.
func directoryContent(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	for _, name := range names(t, dir, "*") {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if name != lockName {
			b.WriteString(name + "\n" + string(data) + "\n")
		}
	}
	return b.String()
}

// TestOlderCopy wants an older copy of the export that takes its place to be refused, and the
// newest, or an empty directory, to be taken.
func TestOlderCopy(t *testing.T) {
	parent := t.TempDir()
	dir, older, newest := filepath.Join(parent, "export"), filepath.Join(parent, "older"), filepath.Join(parent, "newest")
	s := mustOpen(t, rotating(dir, 0), nil)
	mustSend(t, s, batch(queueA, 1, 2))
	if err := os.CopyFS(older, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	mustSend(t, s, batch(queueA, 3, 4))
	swap := func(from, to string) {
		t.Helper()
		if err := errors.Join(os.Rename(dir, to), os.Rename(from, dir)); err != nil {
			t.Fatal(err)
		}
	}
	swap(older, newest)
	for range 2 {
		wantKind(t, s, batch(queueA, 5, 5), sinks.Misconfigured, "ends at record 2", "up to record 4", "continues with record 5")
	}
	err := s.Resume(t.Context(), sinks.Queue{ID: queueA, Lineage: lineageA}, func(at sinks.Position, _ bool) (sinks.Position, error) { return at, nil })
	if err == nil || sinks.FailureOf(err).Reason != sinks.PositionBehind {
		t.Errorf("got %v, want %s", err, sinks.PositionBehind)
	}
	swap(newest, older)
	mustSend(t, s, batch(queueA, 5, 5))
	wantLines(t, "exported", exported(t, dir), records(queueA, 1, 5))

	mustFinish(t, s)
	mustSend(t, s, batch(queueA, 6, 6))
	remove(t, dir, positionName) // what nobody knows of is a gap then
	mustSend(t, s, batch(queueA, 7, 7))
	mustFinish(t, s)
	if got, want := told(t, mustAudit(t, dir)), "7-7:{Unknown:6}"; got[len(got)-1] != want {
		t.Errorf("got %v, want %s at the end", got, want)
	}

	if err := os.Mkdir(newest, 0o700); err != nil {
		t.Fatal(err)
	}
	swap(newest, filepath.Join(parent, "gone"))
	mustSend(t, s, batch(queueA, 8, 8))
	wantLines(t, "exported", exported(t, dir), records(queueA, 8, 8))
}
