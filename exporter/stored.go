package exporter

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
)

// StoredConfig is the name of a file in the directory of a queue: the last configuration that
// took effect there. docket run goes by it when the operator's file is invalid.
const StoredConfig = state.ConfigFile

// storedHead stands before that configuration.
const storedHead = `# Written by docket: the last configuration that took effect, with every default.
# docket run -f FILE goes by it while FILE is invalid. Changes here are overwritten.
`

// maxStoredBytes is more than a configuration has that docket can run.
const maxStoredBytes = 4 << 20

// StoredPath is where the last configuration of the queue in directory is stored.
func StoredPath(directory string) string { return filepath.Join(directory, StoredConfig) }

// store keeps the configuration in force. docket runs without if it has to.
func (e *Exporter) store() {
	if !e.stores {
		return
	}
	cfg := e.config()
	text, err := cfg.YAML()
	if err == nil {
		err = disk.At(cfg.Queue.Directory).Join(StoredConfig).Replace(append([]byte(storedHead), text...))
	}
	if err != nil {
		e.log.Error("the configuration cannot be stored: a start with an invalid file would go by an older one, or fail", "error", err)
	}
}

// LoadStored returns the last configuration that took effect on the queue in directory. Its
// error wraps fs.ErrNotExist when there is none.
func LoadStored(directory string, kinds Kinds) (*Config, error) {
	path := StoredPath(directory)
	text, err := disk.At(directory).Join(StoredConfig).Read(maxStoredBytes)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("no configuration is stored in %s: %w", directory, fs.ErrNotExist)
		}
		return nil, fmt.Errorf("the stored configuration: %w", err)
	}
	cfg, problems := Load(text, kinds)
	if len(problems) > 0 {
		return nil, fmt.Errorf("the stored configuration %s is of no use to this docket: line %d: %s: %s", path, problems[0].Line, problems[0].Path, problems[0].Text)
	}
	cfg.Queue.Directory = directory // the one in which it lies, under whichever name
	return cfg, nil
}
