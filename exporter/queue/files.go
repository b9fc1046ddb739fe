package queue

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"

	"github.com/docket-export/docket/internal/disk"
)

// InUseError says that another process owns the queue.
type InUseError struct {
	Directory string
	PID       int // 0 when unknown
}

func (e *InUseError) Error() string {
	holder := "another process"
	if e.PID > 0 {
		holder = "process " + strconv.Itoa(e.PID)
	}
	return fmt.Sprintf("queue %s is in use by %s: stop it, or give this one a directory of its own", e.Directory, holder)
}

// lock fails with *InUseError when another process owns the queue in dir.
func lock(fsys disk.FS, dir string) (disk.Lock, error) {
	l, err := fsys.Lock(filepath.Join(dir, lockFile))
	if inUse, ok := errors.AsType[*disk.InUseError](err); ok {
		return nil, &InUseError{Directory: dir, PID: inUse.PID}
	}
	return l, err
}

// makeDir makes the queue's directory, or one below it, with durable names.
func makeDir(fsys disk.FS, dir string, below ...string) error {
	return disk.On(fsys, dir).Join(below...).MakeDir()
}

// readFull fills p from off, or returns what there is with io.EOF.
func readFull(f disk.File, p []byte, off int64) (int, error) {
	n, err := f.ReadAt(p, off)
	if n == len(p) {
		return n, nil
	}
	return n, err
}

func notExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }
