package tailsource

import (
	"strings"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/tailsource/formats"
)

// Definition describes the source "tail" for the registry.
var Definition = sources.Definition{
	Kind:      "tail",
	NewConfig: func() sources.Config { return &Config{} },
}

// Config is the section "tail" of a source.
type Config struct {
	// Path of the file. Neither it nor its directory need exist yet; symbolic links
	// are followed, and followed again when they change.
	Path string `yaml:"path"`
	// Format of the file.
	Format formats.Format `yaml:"format"`
}

// Claims implements config.Claimer.
func (c *Config) Claims() []config.Claim {
	return []config.Claim{{Key: "path", Kind: config.Input, Value: c.Path}}
}

// Validate reports a path that can be none, and a format that there is not.
func (c *Config) Validate() config.Problems {
	var p config.Problems
	switch {
	case c.Path == "":
		p.Addf("path", "is required: the path of the log file, such as /var/log/gatekeeper/manager.log")
	case strings.ContainsRune(c.Path, 0):
		p.Addf("path", "must not contain a NUL byte")
	case strings.HasSuffix(c.Path, "/"):
		p.Addf("path", "must be a file, not a directory")
	case strings.Contains(c.Path, "*"):
		p.Addf("path", "must be one file, not a pattern: files that rotation has renamed are found, and other files want a source of their own")
	}
	switch c.Format {
	case formats.GatekeeperDenies, formats.OPAConsole, formats.JSON, formats.CRI:
	case "":
		p.Addf("format", "is required: %s, %s, %s or %s", formats.GatekeeperDenies, formats.OPAConsole, formats.JSON, formats.CRI)
	default:
		p.Addf("format", "must be %s, %s, %s or %s, not %q", formats.GatekeeperDenies, formats.OPAConsole, formats.JSON, formats.CRI, string(c.Format))
	}
	return p
}

// New makes the source. It opens nothing before Run.
func (c *Config) New(env sources.Env) sources.Source {
	return &source{config: *c, env: env, grace: grace}
}
