package follow

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/internal/testleak"
	"github.com/docket-export/docket/internal/testlog"
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
		{"0.log", "1.log", false},
		{"2.log", "1.log.20260105-100407", false},
		{"2.log", "2.log.20260105-100407.gz", false},
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
	f := newFollower(t, path)
	write(t, path, "first\n")
	rotate(t, path)
	write(t, path, "second\n")
	rotate(t, path)
	files, err := list(dir)
	if err != nil || len(files) != 2 {
		t.Fatalf("got %v, %v, want two files", files, err)
	}
	rotate(t, path)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range files {
		if o, _, isOurs := f.judge(c, path, identity{}); o != nil || !isOurs {
			t.Errorf("%s: got %v, %v, want that it is not there any more", c.path, o, isOurs)
		}
	}
	found, all := f.predecessors(path, identity{})
	defer closeAll(found)
	if len(found) != 2 || !all {
		t.Errorf("got %d files, %v, want the two that have made way, under their names of now", len(found), all)
	}
}

// TestNameOfATruncatedFile: what is said of contents names their file also when they are gone.
func TestNameOfATruncatedFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.log")
	write(t, path, "first\n")
	f := newFollower(t, path)
	r, buf := f.Next(), make([]byte, 99)
	if _, err := r.Read(buf, true); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	f.scan() // before the next Read
	if _, err := r.Read(buf, true); !errors.Is(err, ErrMoved) || r.Name() != path {
		t.Errorf("got %v of %q, want that the contents of %q are gone", err, r.Name(), path)
	}
}

func newFollower(t *testing.T, path string) *Follower {
	f := New(Options{Path: path, Report: quiet{}, Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(f.Close)
	return f
}

// TestGrace: a file whose successor has contents is read on for as long as the grace says.
func TestGrace(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.log")
	for grace, isOver := range map[time.Duration]bool{time.Hour: false, 0: true} {
		f := New(Options{Path: path, Grace: grace, Report: quiet{}, Log: slog.New(slog.DiscardHandler)})
		t.Cleanup(f.Close)
		write(t, path, "first\n")
		f.scan()
		rotate(t, path)
		write(t, path, "second\n")
		f.scan()
		r, buf := f.Next(), make([]byte, 99)
		if data, err := r.Read(buf, true); string(data) != "first\n" || err != nil {
			t.Fatalf("got %q, %v, want the first line", data, err)
		}
		if _, err := r.Read(buf, true); !errors.Is(err, io.EOF) || r.IsOver() != isOver {
			t.Errorf("grace of %v: got %v, over: %v; want the end, over: %v", grace, err, r.IsOver(), isOver)
		}
		if due := time.Until(r.Due()); due > grace || due < grace-time.Minute {
			t.Errorf("grace of %v: got it over in %v", grace, due)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRotatedWhileItIsListed: a file is read after all that are older, whatever rotation
// does between the looks at the path and at its directory.
func TestRotatedWhileItIsListed(t *testing.T) {
	t.Parallel()
	for name, disturb := range map[string]func(t *testing.T, path string, call int, files []file) []file{
		"nothing": func(_ *testing.T, _ string, _ int, files []file) []file { return files },
		"twice, and there is nothing at the path": func(t *testing.T, path string, call int, files []file) []file {
			if call > 0 {
				return files
			}
			rotate(t, path)
			write(t, path, "fourth\n")
			rotate(t, path)
			again, err := list(filepath.Dir(path))
			if err != nil {
				t.Error(err)
			}
			return again
		},
		"listings that lack files": func(_ *testing.T, path string, call int, files []file) []file {
			if call >= maxListings {
				return files
			}
			return slices.DeleteFunc(files, func(f file) bool { return f.path == path+".1" || f.path == path+".2" && call%2 == 0 })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "a.log")
			f := newFollower(t, path)
			calls := 0
			f.list = func(dir string) ([]file, error) {
				files, err := list(dir)
				calls++
				return disturb(t, path, calls-1, files), err
			}
			write(t, path, "first\n")
			rotate(t, path)
			write(t, path, "second\n")
			rotate(t, path)
			write(t, path, "third\n")
			f.scan()
			want := []string{"first\n", "second\n", "third\n"}
			if _, err := os.Stat(path); err != nil {
				write(t, path, "fifth\n")
				want = append(want, "fourth\n", "fifth\n")
			}
			f.scan()
			var got []string
			for r := f.Next(); r != nil; r = f.Next() {
				data, err := r.Read(make([]byte, 99), true)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, string(data))
				r.Finish(r.Describe(Contents{Generation: uint64(len(got))}))
			}
			if !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// quiet is a Report that nobody reads.
type quiet struct{}

func (quiet) Set(string, string)       {}
func (quiet) Gap(Lost, string, ...any) {}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// rotate renames path to path.1, that to path.2 and so on.
func rotate(t *testing.T, path string) {
	t.Helper()
	for n := 8; n >= 0; n-- {
		from := path
		if n > 0 {
			from = fmt.Sprintf("%s.%d", path, n)
		}
		if err := os.Rename(from, fmt.Sprintf("%s.%d", path, n+1)); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
}

// A directory that cannot be listed is in the log once, however often it is looked at.
func TestUnlistableDirectoryInTheLog(t *testing.T) {
	t.Parallel()
	var log testlog.Buffer
	f := &Follower{log: slog.New(slog.NewTextHandler(&log, nil)), list: func(string) ([]file, error) { return nil, os.ErrPermission }}
	for range 60 {
		f.listBeside("/var/log/manager.log")
	}
	if lines := strings.Count(log.String(), "\n"); lines != 1 {
		t.Errorf("got %d lines, want 1:\n%s", lines, log.String())
	}
}
