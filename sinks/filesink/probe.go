package filesink

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// Probe implements sinks.Prober. It writes a file to the directory, or to the
// nearest existing one above it, and removes the file; it looks up the group; and it reads the
// key. It takes no lock: an exporter may be writing.
func (c *Config) Probe(ctx context.Context, _ sinks.Env) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, err := c.access(); err != nil {
		return err
	}
	if _, err := c.Signature.key(); err != nil {
		return err
	}
	dir, err := nearest(c.Directory)
	if err != nil {
		return failure("find the directory", err)
	}
	if err := tryDirectory(dir); err != nil {
		return failure("write to the directory", err)
	}
	if err := tryFiles(c.Directory); err != nil {
		return failure("open a file of the export", err)
	}
	return nil
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
	f := disk.At(dir).Join(".docket-probe-" + uuid.NewString())
	if err := f.WriteNew([]byte("x")); err != nil {
		return err
	}
	return f.Remove()
}

// tryFiles opens the files that the sink writes to, where they are there: another
// user may have made them.
func tryFiles(dir string) error {
	list := []string{lockName, positionName, manifest.FileName}
	for f := range forms {
		list = append(list, activeName(f))
	}
	for _, name := range list {
		f, err := disk.At(dir).Join(name).OpenWrite()
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
