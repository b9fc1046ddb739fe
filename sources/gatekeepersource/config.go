package gatekeepersource

import (
	"errors"
	"path/filepath"
	"time"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/failures"
	"github.com/docket-export/docket/sources/gatekeepersource/runs"
)

// defaultSnapshotInterval is how often the standing violations are repeated where only
// changes are reported: a consumer that has missed one knows within the hour.
const defaultSnapshotInterval = config.Duration(time.Hour)

// Definition describes the source "gatekeeper" for the registry.
var Definition = sources.Definition{
	Kind: "gatekeeper",
	NewConfig: func() sources.Config {
		return &Config{SnapshotInterval: defaultSnapshotInterval}
	},
	Sample: `# The files that Gatekeeper exports to a disk. Put the queue on the same volume if you can.
- name: NAME
  gatekeeper:
    # CHANGE: the path of Gatekeeper's Connection
    path: /tmp/violations/topicsCOUNT
    #deleteAfterRead: true   # delete a file once all of it is in the queue
    #delta: true             # what an audit opened and resolved, instead of every violation
`,
}

// Config is the section "gatekeeper" of a source.
type Config struct {
	// Path of the Connection, below which Gatekeeper makes a directory for each channel.
	Path string `yaml:"path"`
	// DeleteAfterRead removes a file once all that was in it is durable in the queue.
	DeleteAfterRead bool `yaml:"deleteAfterRead"`
	// Delta reports what changed from one audit to the next, instead of every
	// violation.
	Delta bool `yaml:"delta"`
	// SnapshotInterval is how often Delta repeats the violations that stand.
	SnapshotInterval config.Duration `yaml:"snapshotInterval"`
}

// KeepsParts implements sources.Unredacted.
func (c *Config) KeepsParts() string {
	if c.Delta {
		return "delta"
	}
	return ""
}

// Claims implements config.Claimer.
func (c *Config) Claims() []config.Claim {
	return []config.Claim{{Key: "path", Kind: config.Input, Value: c.Path}}
}

// Validate reports a path that is missing or relative, and an interval that is not
// positive.
func (c *Config) Validate() config.Problems {
	var p config.Problems
	p.Check("path", config.Required(c.Path, "is required: the path of Gatekeeper's Connection, such as /tmp/violations/topics"), checkPath(c.Path))
	p.Check("snapshotInterval", config.Positive(c.SnapshotInterval))
	return p
}

func checkPath(path string) error {
	if !filepath.IsAbs(path) {
		return errors.New("must be absolute, such as /tmp/violations/topics")
	}
	return nil
}

// New makes the source. It opens nothing before Run.
func (c *Config) New(env sources.Env) sources.Source {
	own := *c
	own.Path = filepath.Clean(own.Path)
	return &source{
		config: own, env: env, pieceBytes: runs.PieceBytes, stopWait: stopWait, poll: poll, restFor: restFor,
		failures: failures.New(env.Log, ""),
	}
}
