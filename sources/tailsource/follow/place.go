package follow

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// maxLinks is how many symbolic links the kernel follows.
const maxLinks = 40

// place is where a path leads.
type place struct {
	real string // the file itself; "" where the path leads nowhere
	// links are the directories in which a change of names can make the path lead
	// elsewhere: those of the links, or the nearest one of a path that leads nowhere.
	links []string
}

// find follows the symbolic links of an absolute path. An error says why it leads
// nowhere; what is to be watched is known nevertheless.
func find(path string) (p place, err error) {
	for range maxLinks {
		dir, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			p.links = append(p.links, nearest(filepath.Dir(path)))
			return p, err
		}
		path = filepath.Join(dir, filepath.Base(path))
		info, err := os.Lstat(path)
		if err != nil {
			p.links = append(p.links, dir)
			return p, err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			p.real = path
			return p, nil
		}
		p.links = append(p.links, dir)
		target, err := os.Readlink(path)
		if err != nil {
			return p, err
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(dir, target)
		}
		path = target
	}
	return p, &fs.PathError{Op: "readlink", Path: path, Err: syscall.ELOOP}
}

// nearest is dir, or the nearest directory above it that there is.
func nearest(dir string) string {
	for {
		found, err := filepath.EvalSymlinks(dir)
		if err == nil {
			return found
		}
		above := filepath.Dir(dir)
		if above == dir || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.ENOTDIR) {
			return above
		}
		dir = above
	}
}
