//go:build unix

package client

import (
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// What somebody has put in the place of a file beside the spill file is neither read nor
// changed: the client says its name, or puts its own file there.
func TestPlantedSpillFiles(t *testing.T) {
	tests := map[string]struct {
		suffix   string
		plant    func(file, path string) error
		replaced bool
	}{
		"lock":            {".lock", os.Symlink, false},
		"lock, hard link": {".lock", os.Link, false},
		"lock, pipe":      {".lock", func(_, path string) error { return syscall.Mkfifo(path, 0o600) }, false},
		"spill":           {"", os.Symlink, false},
		"spill, pipe":     {"", func(_, path string) error { return syscall.Mkfifo(path, 0o600) }, false},
		"new":             {".new", os.Symlink, true},
		"new, hard link":  {".new", os.Link, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			canary := `{"docket":{"version":1,"producer":"p","next":1}}` + "\n{}\n" // one that could be taken for a spill file
			file, path := filepath.Join(dir, "canary"), filepath.Join(dir, "spill")
			if err := os.WriteFile(file, []byte(canary), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := tt.plant(file, path+tt.suffix); err != nil {
				t.Fatal(err)
			}
			s, left, err := openSpill(path, remains{producer: "fresh", next: 1}, slog.New(slog.DiscardHandler))
			switch {
			case !tt.replaced && (err == nil || !strings.Contains(err.Error(), path+tt.suffix+" was not created by a client")):
				t.Errorf("got error %v, want one that names %s", err, path+tt.suffix)
			case tt.replaced && err != nil:
				t.Fatal(err)
			case tt.replaced:
				left.lines = []*line{{text: []byte("{}\n")}}
				if err := s.close(left); err != nil {
					t.Error(err)
				}
			}
			if text, err := os.ReadFile(file); err != nil || string(text) != canary {
				t.Errorf("the file elsewhere has %q now, error %v", text, err)
			}
		})
	}
}

// What replaceOwn has written is durable, with its name, and its owner's alone.
func TestReplaceOwnIsDurable(t *testing.T) {
	path := wantCalls(t, func(path string) error {
		return replaceOwn(path, func(w io.Writer) error { _, err := io.WriteString(w, "text"); return err })
	}, `openat\(.*"PATH\.new", [^)]*O_EXCL[^)]*, 0600\).*write\(\d+<PATH\.new>, "text".*fsync\(\d+<PATH\.new>.*`+
		`renameat\(.*"PATH\.new".*"PATH".*fsync\(\d+<DIR>`)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("got mode %o, want 600", got)
	}
}

// A file that removeOwn has removed does not come back.
func TestRemoveOwnIsDurable(t *testing.T) {
	wantCalls(t, removeOwn, `unlinkat\(.*"PATH".*fsync\(\d+<DIR>`)
}

// wantCalls runs do, in a process of its own, with the path of a file in a new directory,
// and compares the calls that the kernel gets with want, in which PATH is that file and
// DIR the directory: no test sees a power cut otherwise. It returns the path.
func wantCalls(t *testing.T, do func(path string) error, want string) (path string) {
	t.Helper()
	const variable = "DOCKET_TEST_CALLS"
	if path := os.Getenv(variable); path != "" {
		if err := do(path); err != nil {
			t.Fatal(err)
		}
		os.Exit(0)
	}
	path = filepath.Join(t.TempDir(), "spill")
	if err := os.WriteFile(path, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	strace, err := exec.LookPath("strace")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("strace is missing: install it")
		}
		t.Skip("strace is missing: the system calls are not looked at")
	}
	cmd := exec.Command(strace, "-f", "-y", "-e", "trace=openat,write,fsync,renameat,unlinkat", os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), variable+"="+path)
	trace, err := cmd.CombinedOutput()
	if err != nil {
		if os.Getenv("CI") != "true" && strings.Contains(string(trace), "PTRACE") {
			t.Skipf("this process may not trace another: the system calls are not looked at: %s", trace)
		}
		t.Fatalf("%v\n%s", err, trace)
	}
	want = "(?s)" + strings.NewReplacer("PATH", regexp.QuoteMeta(path), "DIR", regexp.QuoteMeta(filepath.Dir(path))).Replace(want)
	if !regexp.MustCompile(want).Match(trace) {
		t.Errorf("got the calls\n%s\nwant\n%s", trace, want)
	}
	return path
}
