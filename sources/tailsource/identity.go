package tailsource

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
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

const (
	// headBytes of the beginning of a file tell its contents from others: a file that
	// was truncated and written again has the same inode.
	headBytes = 1 << 10
	// tailBytes before a position tell that what was read up to it is still there.
	tailBytes = 256
)

// taken is what a reader has of the contents of a file.
type taken struct {
	pos  int64  // what is before was read
	head []byte // what the contents begin with, up to headBytes
	tail []byte // what is before pos, up to tailBytes
}

// isIn reports whether what was read is in a file.
func (t taken) isIn(f io.ReaderAt) (bool, error) {
	begins, err := holds(f, t.head, 0)
	if err != nil || !begins {
		return false, err
	}
	return holds(f, t.tail, t.pos-int64(len(t.tail)))
}

// window is a part of a file, known by its sum: nothing of a log is kept with a state.
type window struct {
	Length int    `json:"length,omitempty"`
	Sum    string `json:"sum,omitempty"`
}

func windowOf(b []byte) window {
	if len(b) == 0 {
		return window{}
	}
	sum := sha256.Sum256(b)
	return window{Length: len(b), Sum: hex.EncodeToString(sum[:16])}
}

// holds reports whether f has b at offset.
func holds(f io.ReaderAt, b []byte, offset int64) (bool, error) {
	var room [headBytes]byte
	got := room[:len(b)]
	n, err := f.ReadAt(got, offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return n == len(b) && bytes.Equal(got, b), nil
}

// begins reports whether a file begins with head, or has only a part of it.
func begins(f io.ReaderAt, head []byte) bool {
	var room [headBytes]byte
	n, err := f.ReadAt(room[:len(head)], 0)
	return n > 0 && (err == nil || errors.Is(err, io.EOF)) && bytes.HasPrefix(head, room[:n])
}

// beginAlike reports whether the beginning of one file is that of the other, as far as
// both go.
func beginAlike(a, b io.ReaderAt) bool {
	var room [headBytes]byte
	n, err := a.ReadAt(room[:], 0)
	return (err == nil || errors.Is(err, io.EOF)) && begins(b, room[:n])
}

// part reads a part of f; nil if it is not all there.
func part(f io.ReaderAt, offset int64, length int) ([]byte, error) {
	b := make([]byte, length)
	n, err := f.ReadAt(b, offset)
	switch {
	case n == length:
		return b, nil
	case errors.Is(err, io.EOF):
		return nil, nil
	default:
		return nil, err
	}
}
