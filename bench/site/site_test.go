package site

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/docket-export/docket/bench/trial"
)

func TestSite(t *testing.T) {
	parent := t.TempDir()
	var s *Site
	err := trial.Run(t.Context(), func(tr *trial.T) {
		s = New(tr, parent)
		if filepath.Dir(s.Disk) != parent || s.Machine.FileSystem == "" || s.Self == "" {
			t.Errorf("got %+v, want a disk in %s", s, parent)
		}
		if _, err := os.Stat(filepath.Join(s.Root, "go.mod")); err != nil {
			t.Errorf("root: %v", err)
		}
		s.Warm(3 << 20)
		tr.Part("", 0, func(tr *trial.T) {
			dir := s.Scratch(tr)
			if filepath.Dir(dir) != s.Disk {
				t.Errorf("got %s, want a directory in %s", dir, s.Disk)
			}
			for name, text := range map[string]string{"a.ndjson": "12", "b.ndjson": "345", "other": "6"} {
				trial.Check(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
			}
			if got := trial.Must(Size(dir)); got != 5 {
				t.Errorf("exported: got %d bytes, want 5", got)
			}
		})
		if left := trial.Must(os.ReadDir(s.Disk)); len(left) != 0 {
			t.Errorf("on the disk: got %v, want nothing", left)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{s.Disk, s.Short} {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s is still there", dir)
		}
	}
}

func TestNewNeedsItsParent(t *testing.T) {
	if err := trial.Run(t.Context(), func(tr *trial.T) { New(tr, filepath.Join(t.TempDir(), "missing")) }); err == nil {
		t.Error("got no error")
	}
}
