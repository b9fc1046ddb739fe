package rooted

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// OpenFile opens a file as os.OpenFile does, and never waits. The file must be a regular
// file. A file that is opened for writing must have no other name.
func (p Path) OpenFile(flag int, perm fs.FileMode) (*os.File, error) {
	parent, name, err := p.parent()
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	// O_TRUNC must wait until the file is known to be ours; a pipe must not make us wait.
	fd, err := openat(parent, name, flag&^os.O_TRUNC|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, perm)
	if err != nil {
		return nil, p.explain("open", planted(parent, name, p, false, err))
	}
	f := os.NewFile(uintptr(fd), p.String())
	err = checkFile(f, p, flag&(os.O_WRONLY|os.O_RDWR) != 0)
	if err == nil && flag&os.O_TRUNC != 0 {
		err = f.Truncate(0)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Open opens a file for reading.
func (p Path) Open() (*os.File, error) { return p.OpenFile(os.O_RDONLY, 0) }

// OpenDir opens a directory, to list or sync its names.
func (p Path) OpenDir() (*os.File, error) { return p.openDir(os.O_RDONLY) }

func (p Path) openDir(flag int) (*os.File, error) {
	d, err := p.openRoot(flag)
	if err != nil || p.below == "." {
		return d, err
	}
	at := At(p.root)
	for name := range strings.SplitSeq(p.below, "/") {
		at = at.Join(name)
		fd, err := openat(d, name, flag|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if err != nil {
			err = at.explain("open", planted(d, name, at, true, err))
			d.Close()
			return nil, err
		}
		d.Close()
		d = os.NewFile(uintptr(fd), at.String())
	}
	return d, nil
}

func (p Path) openRoot(flag int) (*os.File, error) {
	return os.OpenFile(p.root, flag|unix.O_DIRECTORY, 0)
}

// parent opens the directory that p lies in, and returns the name that p has there.
func (p Path) parent() (dir *os.File, name string, err error) {
	dir, err = p.Dir().openDir(unix.O_PATH)
	return dir, p.Base(), err
}

// explain adds what was tried to an error of a system call.
func (p Path) explain(op string, err error) error {
	if errno, ok := errors.AsType[unix.Errno](err); ok && error(errno) == err { //nolint:errorlint // a bare one has no path yet
		return &fs.PathError{Op: op, Path: p.String(), Err: err}
	}
	return err
}

func openat(dir *os.File, name string, flag int, perm fs.FileMode) (int, error) {
	for {
		fd, err := unix.Openat(int(dir.Fd()), name, flag|unix.O_CLOEXEC, uint32(perm.Perm()))
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}
