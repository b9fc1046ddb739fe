package filesink

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

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

// adviceAt is that of package disk for the file that err names.
func adviceAt(err error) string {
	p, ok := errors.AsType[*fs.PathError](err)
	if !ok {
		return ""
	}
	_, todo := disk.Advice(err, filepath.Dir(p.Path))
	return todo
}

// classify tells what an operator must mend from what may pass, and names what
// to do.
func classify(err error) (kind sinks.Kind, advice string) {
	errno, ok := errors.AsType[unix.Errno](err)
	if !ok {
		return sinks.Transient, ""
	}
	switch errno {
	case unix.EACCES, unix.EPERM:
		return sinks.Misconfigured, fmt.Sprintf("let user %d write there", os.Geteuid())
	case unix.EROFS:
		return sinks.Misconfigured, "mount the file system writable"
	case unix.ENOENT:
		return sinks.Misconfigured, "restore the directory"
	case unix.ENOTDIR, unix.EISDIR, unix.ELOOP, unix.ENAMETOOLONG:
		return sinks.Misconfigured, "choose another directory, or move away the file of that name"
	case unix.EINVAL, unix.ENOTSUP, unix.ENOSYS:
		return sinks.Misconfigured, adviceAt(err)
	case unix.ENOSPC, unix.EDQUOT:
		if advice := adviceAt(err); strings.Contains(advice, "df -i") {
			return sinks.Transient, advice
		}
		return sinks.Transient, "free space there, or lower the limits in retain"
	case unix.EFBIG:
		return sinks.Transient, "raise the limit on file sizes, or lower rotate.maxBytes"
	case unix.EIO:
		return sinks.Transient, "check the disk"
	}
	return sinks.Transient, ""
}
