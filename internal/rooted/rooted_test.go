package rooted

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const canary = "not docket's"

// elsewhere makes a file and a directory outside of the root, and checks that neither has
// changed when the test ends.
func elsewhere(t *testing.T) (file, dir string) {
	t.Helper()
	out := t.TempDir()
	file, dir = filepath.Join(out, "file"), filepath.Join(out, "dir")
	must(t, os.WriteFile(file, []byte(canary), 0o600))
	must(t, os.Mkdir(dir, 0o700))
	t.Cleanup(func() {
		if got, err := os.ReadFile(file); err != nil || string(got) != canary {
			t.Errorf("the file outside has %q, error %v", got, err)
		}
		if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
			t.Errorf("the directory outside has %v, error %v", names, err)
		}
	})
	return file, dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Whatever somebody has put in the place of a file of docket's: it is refused by name,
// at once, and what it leads to is not touched.
func TestPlantedFileIsRefused(t *testing.T) {
	plants := map[string]struct {
		plant func(path, file, dir string) error
		kind  string
	}{
		"symbolic link":               {func(path, file, _ string) error { return os.Symlink(file, path) }, "a symbolic link"},
		"symbolic link to a new name": {func(path, _, dir string) error { return os.Symlink(filepath.Join(dir, "new"), path) }, "a symbolic link"},
		"link within the root":        {func(path, _, _ string) error { return os.Symlink("other", path) }, "a symbolic link"},
		"hard link":                   {func(path, file, _ string) error { return os.Link(file, path) }, "another name"},
		"named pipe":                  {func(path, _, _ string) error { return unix.Mkfifo(path, 0o600) }, "a named pipe"},
		"directory":                   {func(path, _, _ string) error { return os.Mkdir(path, 0o700) }, "a directory"},
		"socket":                      {func(path, _, _ string) error { return unix.Mknod(path, unix.S_IFSOCK|0o600, 0) }, "a socket"},
	}
	for name, tt := range plants {
		for flags, flag := range map[string]int{"write": os.O_RDWR | os.O_CREATE, "truncate": os.O_WRONLY | os.O_TRUNC, "read": os.O_RDONLY} {
			if flags == "read" && name == "hard link" {
				continue // whoever can make one could read the file
			}
			t.Run(name+"/"+flags, func(t *testing.T) {
				file, dir := elsewhere(t)
				root := t.TempDir()
				must(t, os.WriteFile(filepath.Join(root, "other"), []byte(canary), 0o600))
				p := At(root).Join("name")
				must(t, tt.plant(p.String(), file, dir))
				f, err := p.OpenFile(flag, 0o600)
				if err == nil {
					f.Close()
				}
				planted, ok := errors.AsType[*PlantedError](err)
				if !ok || !strings.Contains(planted.Kind, tt.kind) || !strings.Contains(err.Error(), p.String()+" is ") {
					t.Errorf("got error %v, want %s at %s", err, tt.kind, p)
				}
			})
		}
	}
}

// A directory of docket's that is a link leads no call anywhere.
func TestPlantedDirectoryIsRefused(t *testing.T) {
	calls := map[string]func(p Path) error{
		"open":   func(p Path) error { _, err := p.Join("f").OpenFile(os.O_RDWR|os.O_CREATE, 0o600); return err },
		"deeper": func(p Path) error { _, err := p.Join("a/b").Open(); return err },
		"list":   func(p Path) error { _, err := p.ReadDir(); return err },
		"sync":   func(p Path) error { return p.SyncDir() },
		"mkdir":  func(p Path) error { return p.Join("d").Mkdir(0o700) },
		"stat":   func(p Path) error { _, err := p.Join("f").Lstat(); return err },
		"remove": func(p Path) error { return p.Join("f").Remove() },
		"from":   func(p Path) error { return p.Join("f").Rename(At(p.root).Join("to")) },
		"to":     func(p Path) error { return At(p.root).Join("other").Rename(p.Join("f")) },
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			file, dir := elsewhere(t)
			root := t.TempDir()
			must(t, os.WriteFile(filepath.Join(root, "other"), nil, 0o600))
			p := At(root).Join("sub")
			for target, kind := range map[string]string{dir: "a symbolic link", file: "a symbolic link", "": "a file"} {
				_ = os.Remove(p.String())
				if target == "" {
					must(t, os.WriteFile(p.String(), nil, 0o600))
				} else {
					must(t, os.Symlink(target, p.String()))
				}
				err := call(p)
				if planted, ok := errors.AsType[*PlantedError](err); !ok || planted.Path != p.String() || planted.Kind != kind {
					t.Errorf("%s: got error %v, want %s at %s", target, err, kind, p)
				}
			}
		})
	}
}

// What the operator has named may be a link; what is replaced or removed is the link
// below it, never what it leads to.
func TestRootIsTheOperators(t *testing.T) {
	file, _ := elsewhere(t)
	target := t.TempDir()
	root := filepath.Join(t.TempDir(), "root")
	must(t, os.Symlink(target, root))
	p := At(root).Join("a", "b", "f")
	must(t, p.Dir().Dir().Mkdir(0o700))
	must(t, p.Dir().Mkdir(0o700))

	must(t, os.Symlink(file, p.String()))
	must(t, p.Remove())
	f, err := p.OpenFile(os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	must(t, err)
	_, err = f.WriteString("ours")
	must(t, errors.Join(err, f.Close()))

	to := At(root).Join("to")
	must(t, os.Symlink(file, to.String()))
	must(t, p.Rename(to))
	info, err := to.Lstat()
	must(t, err)
	if !info.Mode().IsRegular() || info.Size() != 4 {
		t.Errorf("the new file: got mode %v of %d bytes", info.Mode(), info.Size())
	}
	must(t, os.Symlink(file, p.String()))
	must(t, p.Remove())
	if _, err := p.Lstat(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removed: got error %v", err)
	}
	if entries, err := At(root).ReadDir(); err != nil || len(entries) != 2 || entries[0].Name() != "a" {
		t.Errorf("listing: got %v, %v", entries, err)
	}
	must(t, At(root).SyncDir())
}

func TestPaths(t *testing.T) {
	p := At("/q").Join("sources", "gk", "state.json")
	for got, want := range map[string]string{
		p.String():                          "/q/sources/gk/state.json",
		p.Append(".new").String():           "/q/sources/gk/state.json.new",
		p.Dir().String():                    "/q/sources/gk",
		p.Base():                            "state.json",
		p.Join("../../../../../x").String(): "/q/x", // nothing leads above the root
		p.Dir().Dir().Dir().String():        "/q",
		At("/q").Dir().String():             "/",
		At("q").Join("f").String():          "q/f",
		At("").Join("f").String():           "f",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
