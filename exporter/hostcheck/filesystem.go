package hostcheck

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/internal/human"
)

// queueWarnings says what the file system that holds the queue's directory, or
// would once it is made, cannot give it. Nothing is changed. A file system that
// cannot be asked is no warning: opening the directory reports it, with more to say.
func queueWarnings(q exporter.QueueConfig) (warnings []string) {
	stat, err := fileSystemOf(q.Directory)
	if err != nil {
		return nil
	}
	if loss := lossOn(int64(stat.Type)); loss != "" { //nolint:unconvert // 32 bits wide on some platforms
		warnings = append(warnings, "queue.directory: "+q.Directory+" is "+loss)
	}
	if small := spaceWarning(q, spaceOf(stat), bytesIn(q.Directory)); small != "" {
		warnings = append(warnings, small)
	}
	if few := inodeWarning(q, int64(stat.Files), int64(stat.Ffree)); few != "" {
		warnings = append(warnings, few)
	}
	return warnings
}

// inodeWarning says that the file system has too few inodes for the files of the queue: its segments, at
// least 16 and of at most 64 MiB, and what lies beside them. A file system that tells no number, as btrfs
// does, has no bound.
func inodeWarning(q exporter.QueueConfig, total, free int64) string {
	need := 64 + max(16, int64(q.MaxBytes)>>26)
	if total <= 0 || free >= need {
		return ""
	}
	return fmt.Sprintf("queue.directory: the file system of %s has %d inodes left (`df -i`), and the queue needs up to %d: "+
		"remove files there, or make a file system with more inodes", q.Directory, free, need)
}

func lossOn(fileSystem int64) string {
	switch fileSystem {
	case unix.TMPFS_MAGIC, unix.RAMFS_MAGIC:
		return "in memory (tmpfs): queued records are lost when the machine restarts"
	case unix.OVERLAYFS_SUPER_MAGIC:
		return "in the container's own layer (overlayfs): queued records are lost with the container; mount a volume"
	}
	return ""
}

// space is that of a file system.
type space struct {
	total int64
	free  int64 // for this user
}

func spaceOf(stat unix.Statfs_t) space {
	block := int64(stat.Bsize) //nolint:unconvert // 32 bits wide on some platforms
	return space{total: int64(stat.Blocks) * block, free: int64(stat.Bavail) * block}
}

// spaceWarning says that the queue, whose directory holds own bytes by now, will
// find the disk full before it has reached maxBytes. A file system that tells no
// size, as some networks' do, is taken to be large enough.
func spaceWarning(q exporter.QueueConfig, s space, own int64) string {
	if s.total == 0 {
		return ""
	}
	reserve := int64(q.MinFreeBytes)
	if q.MinFreeBytes == exporter.Auto {
		reserve = min(64<<20, s.total/20)
	}
	give := max(0, s.free+own-reserve)
	if int64(q.MaxBytes) <= give {
		return ""
	}
	return fmt.Sprintf("queue.maxBytes: %s does not fit on the file system of %s: it has %s, with %s left free (queue.minFreeBytes); "+
		"the disk will be full before the queue, and docket not ready: lower queue.maxBytes or enlarge the volume",
		q.MaxBytes, q.Directory, human.Size(give), human.Size(reserve))
}

// bytesIn is the size of the files in dir and below; what cannot be read counts
// for nothing.
func bytesIn(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return nil //nolint:nilerr // see above
		}
		if info, err := entry.Info(); err == nil {
			n += info.Size()
		}
		return nil
	})
	return n
}

// fileSystemOf returns the file system that holds dir, or would once it is made.
func fileSystemOf(dir string) (unix.Statfs_t, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return unix.Statfs_t{}, err
	}
	for {
		var stat unix.Statfs_t
		err := unix.Statfs(dir, &stat)
		if err == nil {
			return stat, nil
		}
		if !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			return unix.Statfs_t{}, fmt.Errorf("statfs %s: %w", dir, err)
		}
		dir = filepath.Dir(dir)
	}
}
