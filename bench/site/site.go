// Package site is where the benchmarks work: the disk that they measure, room for what
// they start, and the tree that it is built from.
package site

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/docket-export/docket/bench/host"
)

// Site is what a benchmark has to itself.
type Site struct {
	Machine host.Machine
	Root    string // of the repository
	Self    string // this program
	Disk    string // directory on the disk to measure
	Short   string // directory for sockets, whose paths must be short, and binaries
}

// New makes the directories of a site, on the disk that parent is on; if that is empty,
// in .cache of the repository. The caller closes it.
func New(ctx context.Context, parent string) (*Site, error) {
	root, err := Root(ctx)
	if err != nil {
		return nil, err
	}
	if parent == "" {
		parent = filepath.Join(root, ".cache")
		if err := os.MkdirAll(parent, 0o755); err != nil {
			return nil, err
		}
	}
	s := &Site{Root: root}
	if err := s.prepare(parent); err != nil {
		s.Close()
		return nil, err
	}
	if s.Machine.InMemory() {
		fmt.Fprintf(os.Stderr, "bench: WARNING: %s is in memory (tmpfs): a sync costs nothing there, and no ratio means anything; use -dir\n", parent)
	}
	return s, nil
}

func (s *Site) prepare(parent string) (err error) {
	if s.Self, err = os.Executable(); err != nil {
		return err
	}
	if s.Disk, err = os.MkdirTemp(parent, "bench-"); err != nil {
		return err
	}
	if s.Short, err = os.MkdirTemp("", "bench-"); err != nil {
		return err
	}
	s.Machine, err = host.This(s.Disk)
	return err
}

// Close removes everything that was written.
func (s *Site) Close() {
	for _, dir := range []string{s.Disk, s.Short} {
		if dir == "" {
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
	}
}
