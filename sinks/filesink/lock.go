package filesink

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/internal/rooted"
	"github.com/docket-export/docket/sinks"
)

// lock takes the lock file at path, which ends with the process at the latest.
// The file itself stays: removing it would let two processes hold two locks.
func (d disk) lock(path rooted.Path) (*os.File, error) {
	f, err := d.openFile(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = inUse(f)
	} else if err == nil {
		err = writeHolder(f)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func inUse(f *os.File) error {
	holder, err := io.ReadAll(io.LimitReader(f, 20))
	if err != nil {
		return err
	}
	return sinks.Failf(sinks.Misconfigured,
		"file sink: lock %s: held by process %s: give each sink a directory of its own, or stop that process",
		f.Name(), strings.TrimSpace(string(holder)))
}

func writeHolder(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt(fmt.Appendln(nil, os.Getpid()), 0)
	return err
}
