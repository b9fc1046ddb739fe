package queuecmd

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/docket-export/docket/internal/disk"
)

// The operator may name a directory by a link: what it leads to gives the copy its mode.
func TestDirectoryMayBeALink(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"disk": 0o750, "copy": 0o700} {
		if err := os.Mkdir(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	queue, to := filepath.Join(dir, "queue"), filepath.Join(dir, "copy")
	if err := os.Symlink("disk", queue); err != nil {
		t.Fatal(err)
	}
	if err := keepAccess(disk.On(disk.OS(queue), queue), disk.On(disk.OS(to), to)); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(to); err != nil || info.Mode().Perm() != 0o750 {
		t.Errorf("got %v, %v, want mode 750", info.Mode(), err)
	}
}
