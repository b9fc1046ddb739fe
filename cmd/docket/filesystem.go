package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// volatileWarning says what the file system under dir would lose, or nothing when
// it keeps files as long as the disk lasts. dir need not exist yet.
func volatileWarning(dir string) string {
	kind, err := fileSystemOf(dir)
	if err != nil {
		return "" // whoever opens the directory reports it, with more to say
	}
	if loss := lossOn(kind); loss != "" {
		return dir + " is " + loss
	}
	return ""
}

func lossOn(fileSystem int64) string {
	switch fileSystem {
	case unix.TMPFS_MAGIC, unix.RAMFS_MAGIC:
		return "in memory (tmpfs): what is queued is lost when the machine restarts"
	case unix.OVERLAYFS_SUPER_MAGIC:
		return "in the container's own layer (overlayfs): what is queued is lost with the container; mount a volume"
	}
	return ""
}

// fileSystemOf returns the type of the file system that holds dir, or would once
// it is made.
func fileSystemOf(dir string) (int64, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return 0, err
	}
	for {
		var stat unix.Statfs_t
		err := unix.Statfs(dir, &stat)
		if err == nil {
			return int64(stat.Type), nil //nolint:unconvert // 32 bits wide on some platforms
		}
		if !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			return 0, fmt.Errorf("statfs %s: %w", dir, err)
		}
		dir = filepath.Dir(dir)
	}
}
