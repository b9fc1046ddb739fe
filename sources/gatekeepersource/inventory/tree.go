package inventory

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// maxNames bounds what is held of one directory.
const maxNames = 100_000

// dir is an open directory. What it opens lies in it: neither the names that it is
// given nor the links that others put there lead out of it.
type dir struct{ f *os.File }

// openTop opens the directory at path, which the operator chose: it may be a link.
func openTop(path string) (dir, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY, 0)
	return dir{f: f}, err
}

func (d dir) fd() int { return int(d.f.Fd()) }

func (d dir) close() { d.f.Close() }

func (d dir) openat(name string, flags int) (*os.File, error) {
	for {
		fd, err := unix.Openat(d.fd(), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|flags, 0)
		switch {
		case err == nil:
			return os.NewFile(uintptr(fd), name), nil
		case !errors.Is(err, unix.EINTR):
			return nil, &os.PathError{Op: "open", Path: name, Err: err}
		}
	}
}

// names are those in d, in no order. With an error they are some of them; it is one if
// there are more than maxNames.
func (d dir) names() ([]string, error) {
	var all []string
	for len(all) <= maxNames {
		some, err := d.f.Readdirnames(1024)
		all = append(all, some...)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
	}
	return all, fmt.Errorf("the directory has more than %d names", maxNames)
}

// fileInfo is what identifies a file, and its size.
type fileInfo struct {
	inode    uint64
	size     int64
	modified time.Time
	regular  bool
	dir      bool
	link     bool
}

func infoOf(st *unix.Stat_t) fileInfo {
	format := st.Mode & unix.S_IFMT
	return fileInfo{
		inode: st.Ino, size: st.Size, modified: time.Unix(st.Mtim.Unix()),
		regular: format == unix.S_IFREG, dir: format == unix.S_IFDIR, link: format == unix.S_IFLNK,
	}
}

// stat describes what has the name in d, a link itself and not what it leads to.
func (d dir) stat(name string) (fileInfo, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(d.fd(), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fileInfo{}, &os.PathError{Op: "stat", Path: name, Err: err}
	}
	return infoOf(&st), nil
}

// errIrregular says that a name is that of no file with content.
var errIrregular = errors.New("not a regular file")

// open opens a regular file for reading.
func (d dir) open(name string) (*os.File, fileInfo, error) {
	f, err := d.openat(name, unix.O_NONBLOCK) // a pipe would wait for its writer
	if err != nil {
		return nil, fileInfo{}, err
	}
	info, err := statFile(f)
	if err == nil && !info.regular {
		err = &os.PathError{Op: "open", Path: name, Err: errIrregular}
	}
	if err != nil {
		f.Close()
		return nil, fileInfo{}, err
	}
	return f, info, nil
}

func statFile(f *os.File) (fileInfo, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return fileInfo{}, &os.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	return infoOf(&st), nil
}

// link gives the file with the name in d another name in to.
func (d dir) link(name string, to dir, newName string) error {
	if err := unix.Linkat(d.fd(), name, to.fd(), newName, 0); err != nil {
		return &os.LinkError{Op: "link", Old: name, New: newName, Err: err}
	}
	return nil
}

func (d dir) unlink(name string) error {
	if err := unix.Unlinkat(d.fd(), name, 0); err != nil {
		return &os.PathError{Op: "unlink", Path: name, Err: err}
	}
	return nil
}
