//go:build !nosync

package disk

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Syncs says whether Sync does anything. `make bench` compares docket with a docket built
// with the tag nosync. Nothing that such a docket acknowledges is durable, and its log says
// so at every start.
const Syncs = true

// Sync makes data and size of f durable. It leaves out the times, which would cost a journal
// entry each. A signal does not end it. The error names the file. After an error nothing is
// durable, even if a later call succeeds.
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
