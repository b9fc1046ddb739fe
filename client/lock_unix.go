//go:build unix

package client

import (
	"errors"
	"os"
	"syscall"
)

// lockFile locks the file at path, which it makes. The lock ends with the file,
// or with the process.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
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
