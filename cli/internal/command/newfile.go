package command

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/docket-export/docket/internal/disk"
)

// WriteNew creates a durable file at path, which must not exist. After an error there is no
// new file.
func WriteNew(path string, content []byte, mode fs.FileMode) error {
	dir := filepath.Dir(path)
	fsys, err := disk.OSWith(dir, disk.Access{File: mode, GID: -1})
	if err != nil {
		return err
	}
	err = disk.On(fsys, dir).Join(filepath.Base(path)).WriteNew(content)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s already exists, and may be a key in use: choose another name", path)
	}
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: failed.Op, Path: path, Err: failed.Err} // whatever on the way to it has failed
	}
	return err
}
