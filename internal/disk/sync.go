package disk

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

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
