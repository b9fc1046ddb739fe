package deadletter

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	seam "github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/rooted"
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

// osDisk is the disk of the store in dir. The last two components of dir, which are
// deadletters/<sink>, and everything below them are docket's own: no link is followed
// there.
type osDisk struct{ dir string }

func (d osDisk) at(name string) rooted.Path {
	root := filepath.Dir(filepath.Dir(d.dir))
	below, err := filepath.Rel(root, name)
	if err != nil || !filepath.IsLocal(below) {
		return rooted.At(name) // above the store
	}
	return rooted.At(root).Join(below)
}

// MakeDir syncs the directories above even when dir is there: whoever made it may
// have been killed before.
func (d osDisk) MakeDir(dir string) error {
	if err := d.at(dir).MakeDir(dirPerm); err != nil {
		return err
	}
	above := filepath.Dir(dir)
	return errors.Join(d.SyncDir(above), d.SyncDir(filepath.Dir(above)))
}

func (d osDisk) Open(name string, readOnly bool) (file, error) {
	flag := os.O_RDWR
	if readOnly {
		flag = os.O_RDONLY
	}
	return opened(d.at(name).OpenFile(flag, filePerm))
}

func (d osDisk) Create(name string) (file, error) { return opened(d.at(name).Create(filePerm)) }

func opened(f *os.File, err error) (file, error) {
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (d osDisk) Rename(from, to string) error { return d.at(from).Rename(d.at(to)) }

func (d osDisk) Remove(name string) error { return d.at(name).Remove() }

func (d osDisk) SyncDir(dir string) error { return d.at(dir).SyncDir() }

func (d osDisk) Exists(name string) (bool, error) {
	_, err := d.at(name).Lstat()
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

type osFile struct{ *os.File }

func (f osFile) Sync() error { return seam.Sync(f.File) }

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
