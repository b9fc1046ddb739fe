// Package site is where the benchmarks work: the disk that they measure, room for what
// they start, and the tree that it is built from.
package site

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/docket-export/docket/bench/trial"
)

// Site is what a benchmark has to itself.
type Site struct {
	Machine Machine
	Root    string // of the repository
	Self    string // this program
	Disk    string // directory on the disk to measure
	Short   string // directory for sockets, whose paths must be short, and binaries
}

// New makes the directories of a site, on the disk that parent is on; if that is empty,
// in .cache of the repository. They are removed with the measurement.
func New(t *trial.T, parent string) *Site {
	s := &Site{Root: Root(t), Self: trial.Must(os.Executable())}
	if parent == "" {
		parent = filepath.Join(s.Root, ".cache")
		trial.Check(os.MkdirAll(parent, 0o755))
	}
	s.Disk, s.Short = directory(t, parent), directory(t, "")
	s.Machine = machine(s.Disk)
	if s.Machine.FileSystem == inMemory {
		fmt.Fprintf(os.Stderr, "bench: WARNING: %s is in memory (tmpfs): a sync costs nothing there, and no ratio means anything; use -dir\n", parent)
	}
	return s
}

func directory(t *trial.T, parent string) string {
	dir := trial.Must(os.MkdirTemp(parent, "bench-"))
	t.Cleanup(func() error { return os.RemoveAll(dir) })
	return dir
}
