package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// WriteNew makes a durable file that must not exist; after an error there is none.
func WriteNew(path string, content []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already, and a key that is in use must not be lost: choose another name", path)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}
