package deadletter

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/docket-export/docket/internal/datasync"
)

// disk is what a Store needs of a file system; tests put one in its place that
// fails and forgets.
type disk interface {
	// MakeDir makes dir, and the directory above it, with durable names.
	MakeDir(dir string) error
	// Open opens an existing file, for reading alone if asked to.
	Open(name string, readOnly bool) (file, error)
	// Create makes a file, and empties one that is there.
	Create(name string) (file, error)
	Rename(from, to string) error
	Remove(name string) error
	// SyncDir makes the names in dir durable.
	SyncDir(dir string) error
	// Exists reports whether there is a file or directory of this name.
	Exists(name string) (bool, error)
}

// file is an open file.
type file interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Sync makes the file's data and size durable.
	Sync() error
	Truncate(size int64) error
	Size() (int64, error)
}

// Only the owner may read decisions.
const (
	filePerm = 0o600
	dirPerm  = 0o700
)

type osDisk struct{}

// MakeDir syncs the directories above even when dir is there: whoever made it may
// have been killed before.
func (d osDisk) MakeDir(dir string) error {
	if err := os.MkdirAll(dir, dirPerm); err != nil {
		return err
	}
	above := filepath.Dir(dir)
	return errors.Join(d.SyncDir(above), d.SyncDir(filepath.Dir(above)))
}

func (osDisk) Open(name string, readOnly bool) (file, error) {
	flag := os.O_RDWR
	if readOnly {
		flag = os.O_RDONLY
	}
	return openOS(name, flag)
}

func (osDisk) Create(name string) (file, error) {
	return openOS(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
}

func openOS(name string, flag int) (file, error) {
	f, err := os.OpenFile(name, flag, filePerm)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (osDisk) Rename(from, to string) error { return os.Rename(from, to) }

func (osDisk) Remove(name string) error { return os.Remove(name) }

func (osDisk) SyncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (osDisk) Exists(name string) (bool, error) {
	_, err := os.Lstat(name)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

type osFile struct{ *os.File }

func (f osFile) Sync() error { return datasync.File(f.File) }

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
