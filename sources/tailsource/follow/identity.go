package follow

import (
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// identity tells files apart. The number of an inode is used again once its file is
// gone, its time of birth is not; not all file systems have one. The device has no part
// in it: it may have another number after a restart.
type identity struct {
	Inode uint64 `json:"inode"`
	Born  int64  `json:"born,omitempty"` // ns since 1970; 0: unknown
}

// file is what the system says of a file.
type file struct {
	path string // as it was found
	identity
	size     int64
	modified time.Time
	regular  bool
}

// examine looks at an open file.
func examine(f *os.File) (file, error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return file{}, err
	}
	var x unix.Statx_t
	var statErr error
	if err := conn.Control(func(fd uintptr) {
		statErr = unix.Statx(int(fd), "", unix.AT_EMPTY_PATH, statxMask, &x)
	}); err != nil {
		return file{}, err
	}
	if statErr != nil {
		return file{}, &fs.PathError{Op: "statx", Path: f.Name(), Err: statErr}
	}
	return described(f.Name(), &x), nil
}

// examinePath looks at what has a name, and follows no link.
func examinePath(path string) (file, error) {
	var x unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, statxMask, &x); err != nil {
		return file{}, &fs.PathError{Op: "statx", Path: path, Err: err}
	}
	return described(path, &x), nil
}

const statxMask = unix.STATX_TYPE | unix.STATX_INO | unix.STATX_SIZE | unix.STATX_MTIME | unix.STATX_BTIME

func described(path string, x *unix.Statx_t) file {
	f := file{
		path:     path,
		identity: identity{Inode: x.Ino},
		size:     int64(x.Size),
		modified: time.Unix(x.Mtime.Sec, int64(x.Mtime.Nsec)),
		regular:  x.Mode&unix.S_IFMT == unix.S_IFREG,
	}
	if x.Mask&unix.STATX_BTIME != 0 {
		f.Born = x.Btime.Sec*int64(time.Second) + int64(x.Btime.Nsec)
	}
	return f
}

// open opens a regular file to read it. It does not wait, whatever has the name.
func open(path string) (*os.File, file, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, file{}, err
	}
	info, err := examine(f)
	if err == nil && !info.regular {
		err = &fs.PathError{Op: "read", Path: path, Err: fs.ErrInvalid}
	}
	if err != nil {
		f.Close()
		return nil, file{}, err
	}
	return f, info, nil
}

// list describes the regular files of a directory.
func list(dir string) (files []file, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if !e.Type().IsRegular() && e.Type() != fs.ModeIrregular {
			continue
		}
		// One that is gone by now, or renamed, is told of by the next listing.
		if f, err := examinePath(filepath.Join(dir, e.Name())); err == nil && f.regular {
			files = append(files, f)
		}
	}
	return files, err
}

// openListed opens a file that was listed; nil if it is gone, or its name is another's.
func openListed(listed file) *os.File {
	f, info, err := open(listed.path)
	if err != nil {
		return nil
	}
	if info.identity != listed.identity {
		f.Close()
		return nil
	}
	return f
}
