package statefile_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/rooted"
	"github.com/docket-export/docket/sources/statefile"
)

// What somebody has put in the place of a source's state, or of a directory above it, is
// neither read nor written: it is named, or replaced.
func TestPlantedStateIsNotFollowed(t *testing.T) {
	tests := map[string]struct {
		planted string // below the queue's directory
		link    func(target, path string) error
		saved   bool // Save puts its own file there
	}{
		"the directory of all sources": {"sources", os.Symlink, false},
		"the source's directory":       {"sources/gk", os.Symlink, false},
		"the state":                    {"sources/gk/state.json", os.Symlink, true},
		"the new state":                {"sources/gk/state.json.new", os.Symlink, true},
		"a hard link":                  {"sources/gk/state.json.new", os.Link, true},
		"a pipe":                       {"sources/gk/state.json", func(_, path string) error { return unix.Mkfifo(path, 0o600) }, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			outside := t.TempDir()
			file := filepath.Join(outside, "state.json")
			const canary = `{"number":7}`
			if err := os.WriteFile(file, []byte(canary), 0o600); err != nil {
				t.Fatal(err)
			}
			queue := t.TempDir()
			path := filepath.Join(queue, tt.planted)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			target := outside
			if tt.saved {
				target = file
			}
			if err := tt.link(target, path); err != nil {
				t.Fatal(err)
			}
			state := disk.At(queue).Join("sources", "gk", "state.json")

			var d document
			found, err := statefile.Load(state, 1, &d)
			planted, isPlanted := errors.AsType[*rooted.PlantedError](err)
			if found || d.Number != 0 || tt.planted != "sources/gk/state.json.new" && (!isPlanted || planted.Path != path) {
				t.Errorf("Load: got %v, %+v, error %v, want one that names %s", found, d, err, path)
			}
			err = statefile.Save(state, document{Number: 1})
			if planted, isPlanted := errors.AsType[*rooted.PlantedError](err); tt.saved && err != nil || !tt.saved && (!isPlanted || planted.Path != path) {
				t.Errorf("Save: got error %v", err)
			}
			if text, err := os.ReadFile(file); err != nil || string(text) != canary {
				t.Errorf("the file outside is %q now, error %v", text, err)
			}
			if names, err := os.ReadDir(outside); err != nil || len(names) != 1 {
				t.Errorf("outside: got %v, %v", names, err)
			}
		})
	}
}
