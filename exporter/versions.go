package exporter

import (
	"path/filepath"

	"github.com/docket-export/docket/exporter/deadletter"
	"github.com/docket-export/docket/sources"
)

// checkVersions reports a file below the queue's directory, apart from the queue's own, of
// a version that this docket does not read, as a *fileversion.Error. It comes before
// anything is opened, which might change something. docs/file-formats.md lists the files.
func checkVersions(cfg *Config, runners []*sourceRunner) error {
	for _, r := range runners {
		if s, ok := r.source.(sources.Stateful); ok {
			if err := s.CheckState(); err != nil {
				return err
			}
		}
	}
	for _, s := range cfg.Sinks {
		if err := deadletter.CheckVersion(filepath.Join(cfg.Queue.Directory, DeadLettersDirectory, s.Name)); err != nil {
			return err
		}
	}
	return nil
}
