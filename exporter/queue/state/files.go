package state

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/docket-export/docket/internal/disk"
)

// Names in the directory of a queue.
const (
	LockFile      = "lock" // says who works on the queue
	QuarantineDir = "quarantine"
	// ReserveFile is removed when the disk is full: its space is for the
	// checkpoint that permits the removal of delivered segments.
	ReserveFile = "reserve"
	// ConfigFile is no file of the queue: its exporter keeps a configuration in it.
	ConfigFile = "last-good.yaml"
)

// BeginPrefix, a number and disk.NewSuffix make the name of a file of a segment that is being
// begun, until its first commit is durable. What such a file holds means nothing.
const BeginPrefix = "segment-"

// InUseError says that another process owns the queue.
type InUseError struct {
	Directory string
	Holder    disk.Holder
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("queue %s is in use by %s: stop it, or give this docket a directory of its own", e.Directory, e.Holder)
}

// Lock fails with *InUseError when another process owns the queue in dir.
func Lock(fsys disk.FS, dir string) (disk.Lock, error) {
	l, err := fsys.Lock(filepath.Join(dir, LockFile))
	return l, inUse(dir, err)
}

// Share locks the queue in dir for the length of one read: a process that wants to own the
// queue waits. It fails with *InUseError while a process owns the queue. A directory
// without a lock file has no owner.
func Share(fsys disk.FS, dir string) (io.Closer, error) {
	s, err := fsys.Share(filepath.Join(dir, LockFile))
	if errors.Is(err, fs.ErrNotExist) {
		return io.NopCloser(nil), nil
	}
	return s, inUse(dir, err)
}

// inUse is err as one of the queue in dir.
func inUse(dir string, err error) error {
	if inUse, ok := errors.AsType[*disk.InUseError](err); ok {
		return &InUseError{Directory: dir, Holder: inUse.Holder}
	}
	return err
}

// parseNumbered returns the number in a name with this prefix and suffix.
func parseNumbered(name, prefix, suffix string) (number int, ok bool) {
	digits, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return 0, false
	}
	digits, ok = strings.CutSuffix(digits, suffix)
	if !ok {
		return 0, false
	}
	number, err := strconv.Atoi(digits)
	if err != nil || number <= 0 || prefix+strconv.Itoa(number)+suffix != name {
		return 0, false
	}
	return number, true
}
