package runcmd

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/exporter"
)

// redacts reports whether any source takes something out of its records.
func redacts(cfg *exporter.Config) bool {
	return slices.ContainsFunc(cfg.Sources, func(s exporter.SourceConfig) bool { return len(s.Redact) > 0 })
}

// forbidCores keeps the kernel from writing the memory of this process to a file or to a
// collector of crashes, and other processes of its user from reading it: lines stand there
// as they came. A limit on the size of core files would not do, as a core that goes to a
// collector has none. A debugger cannot attach either, unless root runs it.
func forbidCores() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("disable core dumps, because a source redacts: %w", err)
	}
	return nil
}
