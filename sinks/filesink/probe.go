package filesink

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/internal/rooted"
	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// Probe implements sinks.Prober. It writes a file to the directory, or to the
// nearest one above it that is there, and removes it again; it reads the key; and
// it looks at how much room is left. It takes no lock: an exporter may be writing.
func (c *Config) Probe(ctx context.Context, _ sinks.Env) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, err := c.Signature.key(); err != nil {
		return err
	}
	dir, err := nearest(c.Directory)
	if err != nil {
		return failure("look for the directory", err)
	}
	if err := tryDirectory(dir); err != nil {
		return failure("write to the directory", err)
	}
	if err := tryFiles(c.Directory); err != nil {
		return failure("open a file of the export", err)
	}
	return checkRoom(dir)
}

// nearest is dir, or the closest directory above it that is there.
func nearest(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for {
		info, err := os.Stat(dir)
		switch {
		case err == nil && !info.IsDir():
			return "", &fs.PathError{Op: "open", Path: dir, Err: unix.ENOTDIR}
		case !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir):
			return dir, err
		}
		dir = filepath.Dir(dir)
	}
}

// tryDirectory makes a file in dir, writes and syncs a byte, and removes it.
func tryDirectory(dir string) error {
	f, err := os.CreateTemp(dir, ".docket-probe-*")
	if err != nil {
		return err
	}
	_, err = f.Write([]byte("x"))
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

// tryFiles opens the files that the sink writes to, where they are there: another
// user may have made them.
func tryFiles(dir string) error {
	list := []string{lockName, positionName, manifest.FileName}
	for f := range forms {
		list = append(list, activeName(f))
	}
	for _, name := range list {
		f, err := rooted.At(dir).Join(name).OpenFile(os.O_RDWR, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

// checkRoom wants as much room as one batch may take.
func checkRoom(dir string) error {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return failure("look for room", &fs.PathError{Op: "statfs", Path: dir, Err: err})
	}
	// More room than a batch can need does not matter, so the product cannot overflow.
	left := min(stat.Bavail, uint64(Definition.Batch.MaxBytes)) * uint64(stat.Bsize)
	if left < uint64(Definition.Batch.MaxBytes) {
		return sinks.Failf(sinks.Transient, "file sink: %s has room for %s, and a batch can have %s: free space there, or let retain remove more",
			dir, config.Size(left), Definition.Batch.MaxBytes)
	}
	return nil
}
