package filesink

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	seam "github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/rooted"
)

// disk makes every change to the file system, one system call each, so that a
// test can look at the directory between any two of them or let one fail.
type disk struct {
	// before is called ahead of each change. An error stands for its failure.
	// nil outside of tests.
	before func(change, path string) error
	access access // of what is made
}

func (d disk) announce(change, path string) error {
	if d.before == nil {
		return nil
	}
	return d.before(change, path)
}

// makeDirectory makes a directory that must not exist.
func (d disk) makeDirectory(path rooted.Path) error {
	if err := d.announce("make directory", path.String()); err != nil {
		return err
	}
	if err := path.Mkdir(defaultDirectoryMode); err != nil {
		return err
	}
	return d.access.giveDirectory(path)
}

// create makes a file that must not exist.
func (d disk) create(path rooted.Path) (*os.File, error) {
	if err := d.announce("create", path.String()); err != nil {
		return nil, err
	}
	return d.openFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL)
}

// open opens a file that is there, to be read and written.
func (d disk) open(path rooted.Path) (*os.File, error) { return d.openFile(path, os.O_RDWR) }

// openFile opens a file and lets those read it who are to.
func (d disk) openFile(path rooted.Path, flag int) (*os.File, error) {
	f, err := path.OpenFile(flag, defaultMode)
	if err != nil {
		return nil, err
	}
	if err := d.access.giveFile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
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
	return seam.Sync(f)
}

// rename moves a file to a name that the caller knows to be free or means to
// replace.
func (d disk) rename(from, to rooted.Path) error {
	if err := d.announce("rename", to.String()); err != nil {
		return err
	}
	return from.Rename(to)
}

func (d disk) remove(path rooted.Path) error {
	if err := d.announce("remove", path.String()); err != nil {
		return err
	}
	err := path.Remove()
	if errors.Is(err, unix.EISDIR) {
		err = path.RemoveDir()
	}
	return err
}

// syncDirectory makes the names in dir durable.
func (d disk) syncDirectory(dir rooted.Path) error {
	if err := d.announce("sync directory", dir.String()); err != nil {
		return err
	}
	return dir.SyncDir()
}
