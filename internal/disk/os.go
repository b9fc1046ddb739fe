package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/internal/rooted"
)

// Access says who may use the files and directories that docket makes or opens for writing,
// whatever the umask. The zero Access is the owner alone, and changes nothing that exists.
type Access struct {
	File, Directory fs.FileMode // 0: as with the zero Access
	GID             int         // below 0: the process's own
}

// OS is the file system of the operating system below root, the directory that the operator
// has named. With an empty root, the root is the directory of each file. OS follows no link
// below root.
func OS(root string) FS { return osFS{root: root} }

// OSWith is OS with another access. An existing root gets this access too.
func OSWith(root string, a Access) (FS, error) {
	f := osFS{root, a}
	err := f.giveDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return f, err
}

type osFS struct {
	root   string
	access Access
}

// Only the owner may read decisions or change the queue.
const (
	filePerm = 0o600
	dirPerm  = 0o700
)

func (f osFS) at(name string) rooted.Path {
	root := f.root
	if root == "" {
		root = filepath.Dir(name)
	}
	below, err := filepath.Rel(root, name)
	if err != nil || !filepath.IsLocal(below) {
		return rooted.At(name) // the root, or one above it
	}
	return rooted.At(root).Join(below)
}

func (f osFS) Mkdir(dir string) error {
	err := f.at(dir).Mkdir(dirPerm)
	if errors.Is(err, fs.ErrExist) {
		d, notDir := f.at(dir).OpenDir()
		if notDir != nil {
			return notDir
		}
		d.Close()
	}
	if below, notBelow := filepath.Rel(f.root, dir); err == nil && notBelow == nil && filepath.IsLocal(below) {
		err = f.giveDir(dir) // the root, or below it
	}
	return err
}

func (f osFS) List(dir string) ([]string, error) {
	return f.names(dir, func(mode fs.FileMode) bool { return mode.IsRegular() || mode == fs.ModeSymlink })
}

func (f osFS) Dirs(dir string) ([]string, error) { return f.names(dir, fs.FileMode.IsDir) }

func (f osFS) names(dir string, want func(fs.FileMode) bool) (names []string, err error) {
	entries, err := f.at(dir).ReadDir()
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if want(e.Type()) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

func (f osFS) Create(name string) (File, error) {
	return f.open(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
}

func (f osFS) Open(name string) (File, error) {
	file, err := f.OpenWrite(name)
	if errors.Is(err, unix.EROFS) || errors.Is(err, unix.EACCES) {
		return f.OpenRead(name)
	}
	return file, err
}

func (f osFS) OpenWrite(name string) (File, error) { return f.open(name, os.O_RDWR) }

func (f osFS) OpenRead(name string) (File, error) {
	file, err := f.at(name).Open()
	if err != nil {
		return nil, err
	}
	return osFile{file}, nil
}

func (f osFS) open(name string, flag int) (File, error) {
	file, err := f.openFile(name, flag)
	if err != nil {
		return nil, err
	}
	return osFile{file}, nil
}

func (f osFS) openFile(name string, flag int) (*os.File, error) {
	file, err := f.at(name).OpenFile(flag, filePerm)
	if err == nil {
		if err = f.access.give(file, f.access.File); err != nil {
			file.Close()
		}
	}
	return file, err
}

func (f osFS) giveDir(dir string) error {
	if f.access == (Access{}) {
		return nil
	}
	d, err := f.at(dir).OpenDir()
	if err != nil {
		return err
	}
	defer d.Close() // nothing was written through it
	return f.access.give(d, f.access.Directory)
}

// give changes only what differs: a process that is not the owner may still find it right.
func (a Access) give(f *os.File, mode fs.FileMode) error {
	if a == (Access{}) {
		return nil
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return &fs.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	if a.GID >= 0 && int(st.Gid) != a.GID {
		if err := f.Chown(-1, a.GID); err != nil {
			return fmt.Errorf("set group %d: %w: the process must be a member of the group", a.GID, err)
		}
	}
	if mode == 0 || info.Mode().Perm() == mode {
		return nil
	}
	return f.Chmod(info.Mode()&^fs.ModePerm | mode)
}

func (f osFS) Size(name string) (int64, error) {
	info, err := f.at(name).Lstat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (f osFS) Rename(from, to string) error { return f.at(from).Rename(f.at(to)) }

func (f osFS) Remove(name string) error { return f.at(name).Remove() }

func (f osFS) RemoveDir(dir string) error { return f.at(dir).RemoveDir() }

func (f osFS) SyncDir(dir string) error { return f.at(dir).SyncDir() }

func (osFS) Space(dir string) (total, free int64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, 0, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	block := int64(s.Bsize) //nolint:unconvert // 32 bits wide on some platforms
	return int64(s.Blocks) * block, int64(s.Bavail) * block, nil
}

// Lock uses flock. The kernel releases it when the process ends, however it ends. The text
// of the file is for the message of the process that comes second.
func (f osFS) Lock(name string) (Lock, error) {
	file, err := f.openFile(name, os.O_RDWR|os.O_CREATE)
	if errors.Is(err, unix.EROFS) {
		file, err = f.at(name).Open()
	}
	if err != nil {
		return nil, err
	}
	if err := outlast(file); err != nil {
		return nil, notLocked(file, err)
	}
	writeIdentity(file)
	return osFile{file}, nil
}

// writeIdentity may fail on a disk that is full or read-only, which must not keep the
// exporter from draining: the lock holds without the text.
func writeIdentity(f *os.File) {
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt(ownHolder(), 0)
	}
}

type osFile struct{ *os.File }

func (f osFile) Sync() error { return Sync(f.File) }

func (f osFile) Check() error {
	ours, err := f.Stat()
	if err != nil {
		return err
	}
	return CheckName(f.Name(), ours)
}

// LookEvery is how often names that docket depends on are looked at: a queue's directory,
// sockets, certificates, the directory of an export.
const LookEvery = 250 * time.Millisecond

// CheckName fails when a name no longer leads to a file of this process: its directory or the
// file was removed, moved or replaced. The file must be in use, so that no other gets its inode.
func CheckName(name string, ours fs.FileInfo) error {
	named, err := os.Lstat(name)
	if err == nil && !os.SameFile(ours, named) {
		err = &fs.PathError{Op: "look at", Path: name, Err: errors.New("another file has this name")}
	}
	return err
}

func (f osFile) Allocate(size int64) error {
	for {
		err := unix.Fallocate(int(f.Fd()), 0, 0, size)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if errors.Is(err, unix.EOPNOTSUPP) {
			return errors.ErrUnsupported
		}
		return err
	}
}

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (f osFile) IsRemoved() (bool, error) {
	var s unix.Stat_t
	err := unix.Fstat(int(f.Fd()), &s)
	return s.Nlink == 0, err
}

// Data moves the file's own offset, by which nothing is read or written.
func (f osFile) Data(off int64) (from, to int64, err error) {
	from, err = f.Seek(off, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO):
		to, err = f.Size()
		return to, to, err
	case errors.Is(err, unix.EINVAL): // the file system does not know
		to, err = f.Size()
		return min(off, to), to, err
	case err != nil:
		return 0, 0, err
	}
	to, err = f.Seek(from, unix.SEEK_HOLE)
	return from, to, err
}

// Prefetch asks for nothing when the end is in memory: most likely all is, and the kernel
// takes some milliseconds to find that out of 64 MiB.
func (f osFile) Prefetch(off, end int64) {
	var last [1]byte
	_, err := unix.Preadv2(int(f.Fd()), [][]byte{last[:]}, end-1, unix.RWF_NOWAIT)
	if err != nil {
		_ = unix.Fadvise(int(f.Fd()), off, end-off, unix.FADV_WILLNEED) // it costs time and nothing else
	}
}
