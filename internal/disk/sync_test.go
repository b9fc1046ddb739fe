package disk

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// With the file closed the kernel says that it was asked.
func TestSyncSyncs(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "written"))
	if err != nil {
		t.Fatal(err)
	}
	if err := Sync(f); err != nil {
		t.Errorf("got error %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	err = Sync(f)
	if fault, ok := errors.AsType[*os.PathError](err); !ok || !strings.HasSuffix(fault.Path, "written") {
		t.Errorf("closed file: got error %v, want one that names the file", err)
	}
}
