package client

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// openOwn opens a file of the client's, which may lie where others can write, as /tmp.
// A link or pipe in its place is refused: the client would truncate or read a file of
// another owner, or wait.
func openOwn(path string, flag int) (*os.File, error) {
	f, err := os.OpenFile(path, flag|notFollowed, 0o600)
	if err != nil {
		if info, lstatErr := os.Lstat(path); lstatErr == nil && !info.Mode().IsRegular() {
			return nil, planted(path, info)
		}
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || isShared(info)) {
		err = planted(path, info)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// createOwn makes a new file in place of what has the name.
func createOwn(path string) (*os.File, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return openOwn(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
}

// replaceOwn puts a file with what fill writes in the place of the one at path: it writes
// path.new, syncs it, renames it and syncs the directory. On nil content and name are
// durable; on an error the file is the old one, or the new one.
func replaceOwn(path string, fill func(io.Writer) error) error {
	next := path + ".new"
	f, err := createOwn(next)
	if err != nil {
		return err
	}
	if err = fill(f); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		_ = os.Remove(next) // it is not complete, and only in the way
		return err
	}
	return syncDirectoryOf(path)
}

// removeOwn removes the file at path, if there is one. On nil it stays gone.
func removeOwn(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return syncDirectoryOf(path)
}

func syncDirectoryOf(path string) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

func planted(path string, info fs.FileInfo) error {
	return fmt.Errorf("%s was not created by a client (%s): find out who created it, and remove it", path, info.Mode())
}
