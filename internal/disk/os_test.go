package disk

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

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
	must(t, fsys.MkdirAll(filepath.Join(dir, "sub")))
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
