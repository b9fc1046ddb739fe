// Package newsink is the sink "spool" of docs/new-sink.md: one file a record.
package newsink

import (
	"context"
	"os"
	"path/filepath"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sinks"
)

// Definition goes into the list in cli/builtin/builtin.go.
var Definition = sinks.Definition{
	Kind:      "spool", // the key that selects the sink
	Batch:     sinks.DefaultBatch(),
	NewConfig: func() sinks.Config { return &Config{} },
}

// Config is the section "spool" of a sink.
type Config struct {
	// Directory takes the files. It must exist.
	Directory string `yaml:"directory"`
}

// Validate implements sinks.Config.
func (c *Config) Validate() config.Problems {
	var p config.Problems
	if c.Directory == "" {
		p.Addf("directory", "is required: the directory to put the files in")
	}
	return p
}

// Open implements sinks.Config.
func (c *Config) Open(context.Context, sinks.Env) (sinks.Sink, error) { return &sink{c.Directory}, nil }

type sink struct{ directory string }

// Send implements sinks.Sink. A redelivery writes the same file again.
func (s *sink) Send(ctx context.Context, b sinks.Batch) error {
	for i, item := range b.Items {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		err := os.WriteFile(filepath.Join(s.directory, b.ID(i)+".json"), item.Record, 0o600)
		if os.IsNotExist(err) || os.IsPermission(err) {
			return sinks.Failf(sinks.Misconfigured, "spool: %w: make the directory, and let this user write there", err)
		}
		if err != nil {
			return err // Transient: the delivery tries again, for ever
		}
	}
	return nil
}

// Close implements sinks.Sink.
func (s *sink) Close(context.Context) error { return nil }
