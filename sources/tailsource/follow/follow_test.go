package follow

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/docket-export/docket/internal/testleak"
)

func TestMain(m *testing.M) { testleak.Main(m) }

func TestIsRotated(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		base, name string
		want       bool
	}{
		{"manager.log", "manager.log", false},
		{"manager.log", "manager.log.1", true},
		{"manager.log", "manager.log-20260105", true},
		{"manager.log", "manager.log.1.gz", false},
		{"manager.log", "manager-2026-01-05T10-04-07.000.log", true},
		{"manager.log", "manager.1.log", true},
		{"manager.log", "manager.log.old", true},
		{"manager.log", "manager-audit.log", false},
		{"manager.log", "manager.error.log", false},
		{"manager.log", "manager.log.bak", false},
		{"manager.log", "manager.log.1.bak", false},
		{"manager.log", "manager.log.", false},
		{"manager.log", "managers.log", false},
		{"manager.log", "other.log.1", false},
		{"0.log", "0.log.20260105-100407", true},
		{"0.log", "1.log", true},
		{"2.log", "1.log.20260105-100407", true},
		{"2.log", "1.log.20260105-100407.gz", false},
		{"2.log", "1.txt", false},
		{"log", "log.1", true},
		{"log", "logs", false},
	} {
		if got := isRotated(test.base, test.name); got != test.want {
			t.Errorf("%s beside %s: got %v, want %v", test.name, test.base, got, test.want)
		}
	}
}

// TestRenamedSinceItWasListed: a name that is another file's by now is not that file, which
// would be read twice.
func TestRenamedSinceItWasListed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "a.log")
	f := New(Options{Path: path, Report: quiet{}, Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(f.Close)
	write(t, path, "first\n")
	rotate(t, path)
	write(t, path, "second\n")
	files, err := list(dir)
	if err != nil || len(files) != 2 {
		t.Fatalf("got %v, %v, want two files", files, err)
	}
	rotate(t, path)
	for _, c := range files {
		if g, there := f.consider(c, path); g != nil || there {
			t.Errorf("%s: got it, want that it is not there any more", c.path)
		}
	}
	write(t, path, "third\n")
	f.mu.Lock()
	defer f.mu.Unlock()
	found, all := f.between(path, &generation{})
	defer closeAll(found)
	if len(found) != 2 || !all {
		t.Errorf("got %d files, %v, want the two that have made way, under their names of now", len(found), all)
	}
}

// quiet is a Report that nobody reads.
type quiet struct{}

func (quiet) Set(Concern, string) {}
func (quiet) Gap(string, ...any)  {}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// rotate renames path to path.1, and that to path.2.
func rotate(t *testing.T, path string) {
	t.Helper()
	for _, names := range [][2]string{{path + ".1", path + ".2"}, {path, path + ".1"}} {
		if err := os.Rename(names[0], names[1]); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
}
