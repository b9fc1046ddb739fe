package deadletter

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/docket-export/docket/internal/rooted"
)

// A link that somebody has put in the place of a file or directory of the dead letters
// leads nothing away: the store says its name.
func TestPlantedLinksAreNotFollowed(t *testing.T) {
	for _, planted := range []string{"deadletters", "deadletters/siem", "deadletters/siem/" + logFile, "deadletters/siem/" + logFile + ".new"} {
		t.Run(planted, func(t *testing.T) {
			outside := t.TempDir()
			const canary = "not docket's"
			file := filepath.Join(outside, "siem")
			if err := os.WriteFile(file, []byte(canary), 0o600); err != nil {
				t.Fatal(err)
			}
			queue := t.TempDir()
			path := filepath.Join(queue, planted)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			target := outside
			if filepath.Base(filepath.Dir(path)) == "siem" {
				target = file
			}
			if err := os.Symlink(target, path); err != nil {
				t.Fatal(err)
			}

			s, err := Open(filepath.Join(queue, "deadletters/siem"), Options{MaxBytes: 1 << 20})
			if err == nil {
				err = s.Add([]Letter{{Seq: 1, Record: []byte(`{}`)}})
				if closeErr := s.Close(); closeErr != nil {
					t.Error(closeErr)
				}
			}
			got, isPlanted := errors.AsType[*rooted.PlantedError](err)
			if planted == "deadletters/siem/"+logFile+".new" { // it is docket's to replace
				if err != nil {
					t.Errorf("got error %v", err)
				}
			} else if !isPlanted || got.Path != path {
				t.Errorf("got error %v, want one that names %s", err, path)
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
