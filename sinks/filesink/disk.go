package filesink

import (
	"errors"
	"os"

	"github.com/docket-export/docket/internal/datasync"
)

// disk makes every change to the file system, one system call each, so that a
// test can look at the directory between any two of them or let one fail.
type disk struct {
	// before is called ahead of each change. An error stands for its failure.
	// nil outside of tests.
	before func(change, path string) error
}

func (d disk) announce(change, path string) error {
	if d.before == nil {
		return nil
	}
	return d.before(change, path)
}

// makeDirectory makes a directory that must not exist.
func (d disk) makeDirectory(path string) error {
	if err := d.announce("make directory", path); err != nil {
		return err
	}
	return os.Mkdir(path, 0o700)
}

// create makes a file that must not exist.
func (d disk) create(path string) (*os.File, error) {
	if err := d.announce("create", path); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
}

func (d disk) write(f *os.File, p []byte, offset int64) (int, error) {
	if err := d.announce("write", f.Name()); err != nil {
		return 0, err
	}
	return f.WriteAt(p, offset)
}

func (d disk) truncate(f *os.File, size int64) error {
	if err := d.announce("truncate", f.Name()); err != nil {
		return err
	}
	return f.Truncate(size)
}

// sync makes data and size of f durable.
func (d disk) sync(f *os.File) error {
	if err := d.announce("sync", f.Name()); err != nil {
		return err
	}
	return datasync.File(f)
}

// rename moves a file to a name that the caller knows to be free or means to
// replace.
func (d disk) rename(from, to string) error {
	if err := d.announce("rename", to); err != nil {
		return err
	}
	return os.Rename(from, to)
}

func (d disk) remove(path string) error {
	if err := d.announce("remove", path); err != nil {
		return err
	}
	return os.Remove(path)
}

// syncDirectory makes the names in dir durable.
func (d disk) syncDirectory(dir string) error {
	if err := d.announce("sync directory", dir); err != nil {
		return err
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
