package disk

import (
	"errors"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Advice says what a failed call on files below dir means, and what an operator can do. what is ""
// where the error tells too little.
func Advice(err error, dir string) (what, todo string) {
	switch {
	case errors.Is(err, unix.ENOSPC) && outOfInodes(dir):
		return "no inodes left", "remove files from the file system of " + dir + ", or make one with more inodes (`df -i` shows them): free space does not help"
	case errors.Is(err, unix.ENOSPC):
		return "disk full", "free space on the file system of " + dir + ", or enlarge it"
	case errors.Is(err, unix.EDQUOT):
		return "disk quota used up", "free space, or raise the quota of this user, on the file system of " + dir
	case errors.Is(err, unix.EROFS):
		return "read-only file system", "see the kernel's log for the cause, then mount the file system of " + dir + " for writing"
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return "no permission", "let this user write to " + dir
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOTSUP), errors.Is(err, unix.ENOSYS):
		return "unsuitable file system", "the file system of " + dir + " refuses a call that makes files durable: use a local one such as ext4 or XFS"
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return "no descriptors left", "raise the limit of open files (LimitNOFILE= of systemd, ulimit -n)"
	}
	return "", ""
}

// outOfInodes reports whether the file system of dir, or of where it would be made, can have no
// further file.
func outOfInodes(dir string) bool {
	for {
		var s unix.Statfs_t
		if err := unix.Statfs(dir, &s); err == nil {
			return s.Files > 0 && s.Ffree == 0
		}
		above := filepath.Dir(dir)
		if above == dir {
			return false
		}
		dir = above
	}
}
