//go:build !nosync

// Package datasync makes what was written to a file durable.
//
// Built with the tag nosync it does nothing: that is the docket without any sync that
// `make bench` compares with. Such a program says so whenever it starts.
package datasync

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Syncs says whether File does anything. Without it nothing that docket acknowledges
// is durable.
const Syncs = true

// File makes data and size of f durable. It leaves out the times, which would cost a
// journal entry each. A signal does not end it. The error names the file; nothing may
// be taken for durable then, also if a later call succeeds.
func File(f *os.File) error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EINTR) {
			return &os.PathError{Op: "sync", Path: f.Name(), Err: err}
		}
	}
}
