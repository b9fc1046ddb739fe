//go:build !nosync

package disk

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Syncs says whether Sync does anything. Without it nothing that docket acknowledges is
// durable: that is the docket, built with the tag nosync, that `make bench` compares with.
// It says so whenever it starts.
const Syncs = true

// Sync makes data and size of f durable. It leaves out the times, which would cost a
// journal entry each. A signal does not end it. The error names the file; nothing may
// be taken for durable then, also if a later call succeeds.
func Sync(f *os.File) error {
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
