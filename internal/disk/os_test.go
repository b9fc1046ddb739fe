package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/internal/rooted"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A link that somebody has put among the files is listed, and refused by name when it is
// opened; a directory is neither file nor link.
func TestListShowsPlantedLinks(t *testing.T) {
	dir := t.TempDir()
	fsys := OS(dir)
	f, err := fsys.Create(filepath.Join(dir, "file"))
	must(t, err)
	must(t, f.Close())
	must(t, os.Symlink("file", filepath.Join(dir, "link")))
	must(t, fsys.Mkdir(filepath.Join(dir, "sub")))
	names, err := fsys.List(dir)
	must(t, err)
	slices.Sort(names)
	if want := []string{"file", "link"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
	_, err = fsys.Open(filepath.Join(dir, "link"))
	if planted, ok := errors.AsType[*rooted.PlantedError](err); !ok || planted.Path != filepath.Join(dir, "link") {
		t.Errorf("open: got %v, want *rooted.PlantedError", err)
	}
}

// Whatever the umask, nobody but the owner may use what docket makes, and with Access
// those who are named: through every verb that makes something.
func TestModes(t *testing.T) {
	for umask, access := range map[int]Access{
		0o000: {},
		0o022: {},
		0o077: {File: 0o640, Directory: 0o750, GID: -1},
	} {
		before := unix.Umask(umask)
		dir := filepath.Join(t.TempDir(), "above", "root")
		fsys, err := OSWith(dir, access)
		must(t, err)
		makeAll(t, On(fsys, dir))
		unix.Umask(before)

		file, directory := fs.FileMode(0o600), fs.FileMode(0o700)
		if access.File != 0 {
			file, directory = access.File, access.Directory
		}
		seen := 0
		must(t, filepath.WalkDir(filepath.Dir(dir), func(path string, d fs.DirEntry, err error) error {
			must(t, err)
			seen++
			info, err := d.Info()
			must(t, err)
			want := file
			switch {
			case path == filepath.Dir(dir): // the operator's
				want = 0o700
			case d.IsDir():
				want = directory
			}
			if got := info.Mode().Perm(); got != want {
				t.Errorf("umask %03o, %+v: %s has mode %o, want %o", umask, access, path, got, want)
			}
			return nil
		}))
		if seen < 8 {
			t.Errorf("saw %d files and directories, want all", seen)
		}
	}
}

// What is there gets the access too when it is opened for writing, and the root at once.
func TestAccessOfWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	must(t, At(dir).Join("file").Replace([]byte("x")))
	fsys, err := OSWith(dir, Access{File: 0o644, Directory: 0o755, GID: -1})
	must(t, err)
	f, err := On(fsys, dir).Join("file").OpenWrite()
	must(t, err)
	must(t, f.Close())
	for path, want := range map[string]fs.FileMode{dir: 0o755, filepath.Join(dir, "file"): 0o644} {
		info, err := os.Stat(path)
		must(t, err)
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", path, got, want)
		}
	}
}

// makeAll makes something by every verb.
func makeAll(t *testing.T, root Path) {
	t.Helper()
	must(t, root.Join("MakeDir/dir").MakeDir())
	f, err := root.Join("file").Create()
	must(t, err)
	must(t, f.Close())
	must(t, root.Join("replaced").Replace([]byte("x")))
	must(t, root.Join("new").WriteNew([]byte("x")))
	l, err := root.Join("lock").Lock()
	must(t, err)
	must(t, l.Close())
}

// A second Lock says which process has the first, and Check that its file has gone.
func TestLock(t *testing.T) {
	name := At(t.TempDir()).Join("lock")
	l, err := name.Lock()
	must(t, err)
	must(t, l.Check())
	_, err = name.Lock()
	if inUse, ok := errors.AsType[*InUseError](err); !ok || inUse.Path != name.String() || inUse.Holder.PID != os.Getpid() {
		t.Errorf("got %v, want *InUseError of this process", err)
	}
	must(t, name.Remove())
	if l.Check() == nil {
		t.Error("removed: got no error")
	}
	other, err := name.Lock()
	must(t, err)
	if l.Check() == nil {
		t.Error("made by another: got no error")
	}
	must(t, errors.Join(l.Close(), other.Close()))
}

// Lock waits for those that share it, and they do not wait for it.
func TestShare(t *testing.T) {
	name := At(t.TempDir()).Join("lock")
	if _, err := name.Share(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a file: got %v, want fs.ErrNotExist", err)
	}
	must(t, name.Replace(nil))
	for range 20 {
		looking, looked := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(looked)
			shared, err := name.Share()
			close(looking)
			for range 100 { // some time for Lock to come
				if other, err := name.Share(); err == nil {
					other.Close()
				}
			}
			if err != nil || shared.Close() != nil {
				t.Error(err)
			}
		}()
		<-looking
		l, err := name.Lock()
		must(t, err)
		if _, err := name.Share(); err == nil {
			t.Error("locked: got a share")
		}
		must(t, l.Close())
		<-looked
	}
}

// ReadOnly lets nothing be changed, follows no lock, and reads.
func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	must(t, At(dir).Join("file").Replace([]byte("text")))
	fsys := ReadOnly(dir)
	f, err := fsys.Open(name)
	must(t, err)
	defer f.Close()
	_, writeErr := f.WriteAt([]byte{1}, 0)
	_, createErr := fsys.Create(filepath.Join(dir, "x"))
	_, openErr := fsys.OpenWrite(name)
	for what, err := range map[string]error{
		"write": writeErr, "truncate": f.Truncate(0), "allocate": f.Allocate(1), "create": createErr, "open": openErr,
		"rename": fsys.Rename(name, dir+"/x"), "remove": fsys.Remove(name), "rmdir": fsys.RemoveDir(dir), "mkdir": fsys.Mkdir(dir + "/y"), "sync": fsys.SyncDir(dir),
	} {
		if err == nil {
			t.Errorf("%s: got no error", what)
		}
	}
	l, err := fsys.Lock(filepath.Join(dir, "lock"))
	must(t, err)
	must(t, errors.Join(l.Check(), l.Close()))
	if names, err := fsys.List(dir); err != nil || !slices.Equal(names, []string{"file"}) {
		t.Errorf("got %v, %v, want the file alone", names, err)
	}
}

// MakeDir makes all that is missing, and minds what is in the way.
func TestMakeDir(t *testing.T) {
	dir := t.TempDir()
	deep := filepath.Join(dir, "a", "b", "c")
	for range 2 {
		if err := At(deep).MakeDir(); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(deep); err != nil || info.Mode() != 0o700|os.ModeDir {
		t.Errorf("got %v, %v, want a directory of mode 0700", info, err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := At(file).Join("below").MakeDir(); err == nil {
		t.Errorf("got %v, want an error: a file is in the way", err)
	}
}
