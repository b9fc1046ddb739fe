//go:build unix

package client

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// notFollowed opens what has the name itself, and without waiting.
const notFollowed = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// isShared reports whether a file has a second name, which is somebody else's.
func isShared(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Nlink > 1
}

// lockFile locks the file at path, which it makes. The lock ends with the file,
// or with the process.
func lockFile(path string) (*os.File, error) {
	f, err := openOwn(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errors.New("in use by another client: give each process a file of its own")
	}
	return nil, err
}
