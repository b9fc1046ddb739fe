package sources

import (
	"log/slog"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/internal/rooted"
)

// Definition describes one kind of source; see sinks.Definition.
type Definition struct {
	Kind      string        // the configuration key that selects the source: "unix"
	NewConfig func() Config // a pointer to a configuration that holds the defaults
}

// ConfigKey returns Kind.
func (d Definition) ConfigKey() string { return d.Kind }

// Config is the typed configuration of one source, owned by its package.
type Config interface {
	// Validate reports every problem at once, with paths relative to the
	// source's own section. It does not touch disk or network.
	Validate() config.Problems
	// New makes the source. Nothing is bound or opened before Run.
	New(env Env) Source
}

// Env is what a source is told about where it runs.
type Env struct {
	Name           string // the source's name in the configuration
	MaxRecordBytes int    // limits.maxRecordBytes
	// StateDir is where the source keeps what it must know after a restart, such as
	// how far it has read. It is the source's alone, lies beside the queue, and is
	// made by the source when it has something to keep (package statefile).
	StateDir rooted.Path
	Log      *slog.Logger // carries the source's name already
}

// Registry is the list of sources a program knows.
type Registry = config.Registry[Definition]
