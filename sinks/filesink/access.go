package filesink

import (
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/internal/rooted"
	"github.com/docket-export/docket/sinks"
)

// The modes of files and directories, unless the configuration gives others. They are
// private because decisions quote the objects they are about, Secrets included.
const (
	defaultMode          = 0o600
	defaultDirectoryMode = 0o700
)

// access says who may look at an export. It does not depend on the umask.
type access struct {
	set       bool // false: what docket makes has the default, and nothing else is changed
	mode      fs.FileMode
	directory fs.FileMode
	gid       int
}

// access looks up who may look at the export. Its errors are *sinks.Failure.
func (c *Config) access() (a access, err error) {
	a = access{set: c.Mode != "" || c.DirectoryMode != "" || c.Group != "", mode: defaultMode, directory: defaultDirectoryMode}
	if c.Mode != "" {
		if a.mode, err = config.ParseMode(c.Mode); err != nil {
			return a, sinks.Failf(sinks.Misconfigured, "file sink: mode: %w", err)
		}
	}
	if c.DirectoryMode != "" {
		if a.directory, err = config.ParseMode(c.DirectoryMode); err != nil {
			return a, sinks.Failf(sinks.Misconfigured, "file sink: directoryMode: %w", err)
		}
	}
	if a.gid, err = c.Group.Lookup(); err != nil {
		return a, sinks.Failf(sinks.Misconfigured, "file sink: %w", err)
	}
	return a, nil
}

func (a access) giveFile(f *os.File) error { return a.give(f, a.mode) }

// giveDirectory lets those look into a directory who may look at the export.
func (a access) giveDirectory(path rooted.Path) error {
	if !a.set {
		return nil
	}
	d, err := path.OpenDir()
	if err != nil {
		return err
	}
	defer d.Close() // nothing was written through it
	return a.give(d, a.directory)
}

// give changes what is not as it is to be: who is not the owner may still have it right.
func (a access) give(f *os.File, mode fs.FileMode) error {
	if !a.set {
		return nil
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if a.gid != config.OwnGroup {
		if gid, err := groupOf(f); err != nil || gid != a.gid {
			if err := f.Chown(-1, a.gid); err != nil {
				return fmt.Errorf("give it to group %d, which the process must be in: %w", a.gid, err)
			}
		}
	}
	if info.Mode().Perm() == mode {
		return nil
	}
	return f.Chmod(info.Mode()&^fs.ModePerm | mode)
}

// groupOf is the group of an open file.
func groupOf(f *os.File) (int, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return 0, &fs.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	return int(st.Gid), nil
}
