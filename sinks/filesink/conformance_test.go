package filesink

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/sinktest"
)

func TestConformance(t *testing.T) {
	sinktest.Run(t, func(t *testing.T) sinktest.Subject {
		dir := filepath.Join(t.TempDir(), "export")
		var failing string // the change that fails, when not empty
		d := watched(dir, func(change, path string) error {
			if change+" "+filepath.Base(path) == failing {
				return &os.PathError{Op: change, Path: path, Err: unix.EIO}
			}
			return nil
		})
		fail := func(change string) func(*testing.T) func() {
			return func(*testing.T) func() {
				failing = change
				return func() { failing = "" }
			}
		}
		return sinktest.Subject{
			Open:       func(t *testing.T) sinks.Sink { return mustOpen(t, rotating(dir, 0), d) },
			Accepted:   func(t *testing.T) []string { return exported(t, dir) },
			Recognises: true,
			Faults: []sinktest.Fault{
				{Name: "failing sync", Kind: sinks.Transient, Start: fail("sync " + activePrefix)},
				{Name: "failing sync of the position", Kind: sinks.Transient, Start: fail("sync " + positionName)},
				{Name: "directory gone", Kind: sinks.Misconfigured, Start: func(t *testing.T) func() { return away(t, dir, nil) }},
				{Name: "file in its place", Kind: sinks.Misconfigured, Start: func(t *testing.T) func() { return away(t, dir, []byte("x")) }},
				{Name: "active file gone", Kind: sinks.Misconfigured, Start: func(t *testing.T) func() {
					return away(t, filepath.Join(dir, activePrefix), nil)
				}},
				{Name: "active file cut", Kind: sinks.Misconfigured, Start: func(t *testing.T) func() {
					return away(t, filepath.Join(dir, activePrefix), []byte(`{"queue"`))
				}},
			},
		}
	})
}

// away moves what is at path out of the way until stop, and leaves a file with
// the substitute in its place unless that is nil.
func away(t *testing.T, path string, substitute []byte) (stop func()) {
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	if substitute != nil {
		if err := os.WriteFile(path, substitute, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		if err := os.Rename(path+".away", path); err != nil {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(path+".away", path); err != nil {
				t.Fatal(err)
			}
		}
	}
}
