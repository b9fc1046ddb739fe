package rooted

import (
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Lstat describes the file that has the name. It does not follow a link.
func (p Path) Lstat() (fs.FileInfo, error) {
	parent, name, err := p.parent()
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	info, err := lstatIn(parent, name)
	return info, p.explain("lstat", err)
}

func lstatIn(dir *os.File, name string) (fs.FileInfo, error) {
	fd, err := openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	return f.Stat()
}

// Mkdir makes a directory that must not exist.
func (p Path) Mkdir(perm fs.FileMode) error {
	parent, name, err := p.parent()
	if err != nil {
		return err
	}
	defer parent.Close()
	return p.explain("mkdir", unix.Mkdirat(int(parent.Fd()), name, uint32(perm.Perm())))
}

// Rename renames p to to. It replaces a file of that name, or a link itself instead of its
// target.
func (p Path) Rename(to Path) error {
	parent, name, err := p.parent()
	if err != nil {
		return err
	}
	defer parent.Close()
	newParent, newName, err := to.parent()
	if err != nil {
		return err
	}
	defer newParent.Close()
	if err := unix.Renameat(int(parent.Fd()), name, int(newParent.Fd()), newName); err != nil {
		return &os.LinkError{Op: "rename", Old: p.String(), New: to.String(), Err: err}
	}
	return nil
}

// Remove removes a file, or a link itself.
func (p Path) Remove() error { return p.unlink(0) }

// RemoveDir removes an empty directory.
func (p Path) RemoveDir() error { return p.unlink(unix.AT_REMOVEDIR) }

func (p Path) unlink(flag int) error {
	parent, name, err := p.parent()
	if err != nil {
		return err
	}
	defer parent.Close()
	return p.explain("remove", unix.Unlinkat(int(parent.Fd()), name, flag))
}

// ReadDir lists a directory, sorted by name.
func (p Path) ReadDir() ([]fs.DirEntry, error) {
	d, err := p.OpenDir()
	if err != nil {
		return nil, err
	}
	defer d.Close()
	entries, err := d.ReadDir(-1)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}

// SyncDir makes the names in a directory durable.
func (p Path) SyncDir() error {
	d, err := p.OpenDir()
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
