package streamsource

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A link that takes the place of a new socket gives nobody's file another mode.
func TestPlantedSocketIsNotOpenedUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, path := filepath.Join(dir, "canary"), filepath.Join(dir, "docket.sock")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, path); err != nil {
		t.Fatal(err)
	}
	if _, err := openUp(path, access{mode: 0o666, gid: os.Getgid()}); err == nil || !strings.Contains(err.Error(), "has replaced the socket") {
		t.Errorf("got error %v", err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("the file that the link leads to: %v, error %v", info.Mode(), err)
	}
}
