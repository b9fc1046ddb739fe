package queue

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/rooted"
)

// A symbolic link that somebody has put in the place of a file of the queue is never
// followed: the queue says its name and stays closed, or puts its own file there.
func TestPlantedLinksAreNotFollowed(t *testing.T) {
	tests := map[string]struct{ refused bool }{
		"lock":                       {true},
		state.CursorsFile:            {true},
		state.CursorsFile + ".new":   {false},
		state.PositionsFile:          {true},
		state.PositionsFile + ".new": {false},
		segment.Name{FirstSeq: 1, Epoch: 1}.String():   {true},
		segment.Name{FirstSeq: 900, Epoch: 1}.String(): {true},
		state.QuarantineDir:                            {false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			const canary = "not the queue's"
			outside := t.TempDir()
			file := filepath.Join(outside, "canary")
			must(t, os.WriteFile(file, []byte(canary), 0o600))
			opts := Options{Directory: t.TempDir(), SegmentBytes: minSegmentBytes}
			closeQueue(t, open(t, opts))
			path := filepath.Join(opts.Directory, name)
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			must(t, os.Symlink(file, path))

			q, err := Open(opts)
			planted, isPlanted := errors.AsType[*rooted.PlantedError](err)
			switch {
			case tt.refused && (!isPlanted || planted.Path != path || !strings.Contains(err.Error(), path+" is a symbolic link")):
				t.Errorf("got error %v, want one that names %s", err, path)
			case !tt.refused && err != nil:
				t.Errorf("got error %v", err)
			}
			if err == nil {
				closeQueue(t, q)
			}
			if got, err := os.ReadFile(file); err != nil || string(got) != canary {
				t.Errorf("the canary is %q now, error %v", got, err)
			}
			if names, err := os.ReadDir(outside); err != nil || len(names) != 1 {
				t.Errorf("beside the canary: %v, error %v", names, err)
			}
		})
	}
}
