package filesink

import (
	"errors"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/rooted"
	"github.com/docket-export/docket/sinks"
)

// failure says what err, met on the way to doing something, means for the
// records. The texts of package os name the path already.
func failure(doing string, err error) error {
	if f, ok := errors.AsType[*sinks.Failure](err); ok {
		return f
	}
	if _, ok := errors.AsType[*rooted.PlantedError](err); ok {
		return sinks.Failf(sinks.Misconfigured, "file sink: %s: %w", doing, err)
	}
	kind, advice := classify(err)
	if advice != "" {
		return sinks.Failf(kind, "file sink: %s: %w: %s", doing, err, advice)
	}
	return sinks.Failf(kind, "file sink: %s: %w", doing, err)
}

// classify tells what an operator must mend from what may pass, and names what to do, in the words
// of package disk where it has some.
func classify(err error) (kind sinks.Kind, advice string) {
	errno, ok := errors.AsType[unix.Errno](err)
	if !ok {
		return sinks.Transient, ""
	}
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		_, advice = disk.Advice(err, filepath.Dir(p.Path))
	}
	switch errno {
	case unix.EACCES, unix.EPERM, unix.EROFS, unix.EINVAL, unix.ENOTSUP, unix.ENOSYS:
		return sinks.Misconfigured, advice
	case unix.ENOENT:
		return sinks.Misconfigured, "restore the directory"
	case unix.ENOTDIR, unix.EISDIR, unix.ELOOP, unix.ENAMETOOLONG:
		return sinks.Misconfigured, "choose another directory, or move away the file of that name"
	case unix.EFBIG:
		return sinks.Transient, "raise the limit on file sizes, or lower rotate.maxBytes"
	case unix.EIO:
		return sinks.Transient, "check the disk"
	}
	return sinks.Transient, advice
}
