package filesink

import (
	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/sinks"
)

// The modes of files and directories, unless the configuration gives others. They are
// private because decisions quote the objects they are about, Secrets included.
const (
	defaultMode          = 0o600
	defaultDirectoryMode = 0o700
)

// access looks up who may look at the export. Its errors are *sinks.Failure.
func (c *Config) access() (a disk.Access, err error) {
	if c.Mode == "" && c.DirectoryMode == "" && c.Group == "" {
		return a, nil
	}
	a = disk.Access{File: defaultMode, Directory: defaultDirectoryMode}
	if c.Mode != "" {
		if a.File, err = config.ParseMode(c.Mode); err != nil {
			return a, sinks.Failf(sinks.Misconfigured, "file sink: mode: %w", err)
		}
	}
	if c.DirectoryMode != "" {
		if a.Directory, err = config.ParseMode(c.DirectoryMode); err != nil {
			return a, sinks.Failf(sinks.Misconfigured, "file sink: directoryMode: %w", err)
		}
	}
	if a.GID, err = c.Group.Lookup(); err != nil {
		return a, sinks.Failf(sinks.Misconfigured, "file sink: %w", err)
	}
	return a, nil
}
