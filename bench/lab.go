package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"

	"github.com/docket-export/docket/bench/process"
	"github.com/docket-export/docket/bench/record"
	"github.com/docket-export/docket/bench/site"
)

// lab is where experiments are done, with the programs that they need.
type lab struct {
	*site.Site
	records  int    // in each measurement under load
	docket   string // the binary under test
	unsynced string // the same without any sync; empty until buildUnsynced
	large    bool   // the large backlog was made

	profiles   string // directory for profiles of docket; empty: none
	experiment string // name of the one that runs
}

// newLab makes a lab that is ready to measure. The caller closes it.
func newLab(ctx context.Context, o options) (*lab, error) {
	s, err := site.New(ctx, o.dir)
	if err != nil {
		return nil, err
	}
	l := &lab{Site: s, profiles: o.profile, records: o.records}
	if err := l.findDocket(ctx, o.docket); err != nil {
		l.Close()
		return nil, err
	}
	// More than any measurement writes.
	if err := site.Warm(l.Disk, 2*max(l.records, backlogRecords)*record.Bytes); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// findDocket takes the binary that was named, or builds one.
func (l *lab) findDocket(ctx context.Context, binary string) (err error) {
	if binary == "" {
		l.docket = filepath.Join(l.Short, "docket")
		return site.Build(ctx, l.Root, l.docket)
	}
	if l.docket, err = filepath.Abs(binary); err != nil {
		return err
	}
	if _, err := exec.LookPath(l.docket); err != nil {
		return fmt.Errorf("-docket: %w", err)
	}
	return nil
}

// scratch makes an empty directory on the disk, which has come to rest.
func (l *lab) scratch() (dir string, remove func(), err error) { return site.Scratch(l.Disk) }

// buildUnsynced makes the binary to compare with that syncs nothing.
func (l *lab) buildUnsynced() error {
	if l.unsynced != "" {
		return nil
	}
	binary := filepath.Join(l.Short, "docket-nosync")
	if err := site.Build(context.Background(), l.Root, binary, "-tags", "nosync"); err != nil {
		return err
	}
	said, err := exec.Command(binary, "version").Output()
	if err != nil {
		return fmt.Errorf("%s version: %w", binary, err)
	}
	if !bytes.Contains(said, []byte("UNSAFE")) {
		return fmt.Errorf("docket built with the tag nosync says %q: it syncs, and would be compared with itself", bytes.TrimSpace(said))
	}
	l.unsynced = binary
	return nil
}

// run runs this program as a process of its own and returns what it prints.
func (l *lab) run(ctx context.Context, args ...string) ([]byte, error) {
	return process.Output(ctx, "", l.Self, args...)
}
