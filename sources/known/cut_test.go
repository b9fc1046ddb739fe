package known

import (
	"os"
	"testing"
)

// What is cut is out of the file before its numbers are given again, however much of a
// group is cut, so that damage to the later entry does not bring it back.
func TestCut(t *testing.T) {
	for name, cut := range map[string]uint64{"the whole group": 3, "a part of it": 4} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l := open(t, dir, 0)
			add(t, l, 1, 2)
			add(t, l, 3, 4)
			l.Cut(cut)
			if l.Next() != cut {
				t.Errorf("got the next number %d, want %d", l.Next(), cut)
			}
			checkKnown(t, l, 5, []int{1, 2, 3}[:cut-1]...)
			add(t, l, 5, 6)
			scan(readFile(t, l.path.String()), func(e entry) {
				for ids := e.ids; len(ids) > 0; ids = ids[len(ID{}):] {
					if ID(ids) == id(4) {
						t.Error("got what was cut in the file")
					}
				}
			})
		})
	}
}

// Records without an identity may get numbers that were cut, and the file must not have
// those any more either: after a crash what was cut would be taken for what is stored.
func TestCutThenNoIdentity(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, l *Log){
		"a part of the group was cut": func(t *testing.T, l *Log) {
			add(t, l, 1, 2)
			l.Cut(2)
		},
		"the sync has failed": func(t *testing.T, l *Log) {
			add(t, l, 1)
			l.Add(id(2))
			image, end := readFile(t, l.path.String()), l.end
			l.file.Close()
			if err := l.Sync(); err == nil {
				t.Fatal("got no error of a file that is closed")
			}
			// The disk got it all the same.
			if err := os.WriteFile(l.path.String(), appendEntry(image[:end], 2, 0, []ID{id(2)}), 0o600); err != nil {
				t.Fatal(err)
			}
			l.Cut(2)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l := open(t, dir, 0)
			spoil(t, l)
			if number, _ := l.Add(ID{}); number != 2 {
				t.Fatalf("got the number %d, want 2", number)
			}
			if err := l.Sync(); err != nil {
				t.Fatal(err)
			}
			l.Close() // after the record was submitted, and became durable

			checkKnown(t, open(t, dir, 2), 3, 1)
		})
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
