package tailsource

import (
	"errors"
	"path/filepath"
	"strings"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/tailsource/formats"
)

// Definition describes the source "tail" for the registry.
var Definition = sources.Definition{
	Kind:      "tail",
	NewConfig: func() sources.Config { return &Config{} },
	Sample: `# A log file, through every rotation.
- name: NAME
  tail:
    # CHANGE: the file, a pattern, or the directory of a container; it need not exist yet
    path: /var/log/gatekeeper/managerCOUNT.log
    format: gatekeeperDenies   # or opaConsole, json, cri
`,
}

// Config is the section "tail" of a source.
type Config struct {
	// Path of the file, a pattern of files, or a directory, whose files *.log are meant. None
	// need exist yet; symbolic links are followed, and followed again when they change.
	Path string `yaml:"path"`
	// Format of the file.
	Format formats.Format `yaml:"format"`
}

// Claims implements config.Claimer.
func (c *Config) Claims() []config.Claim {
	return []config.Claim{{Key: "path", Kind: config.Input, Value: c.Path}}
}

// Validate reports a path that cannot be a file, and an unknown format.
func (c *Config) Validate() config.Problems {
	var p config.Problems
	p.Check("path", config.Required(c.Path, "is required: the path of the log file, such as /var/log/gatekeeper/manager.log"), checkPath(c.Path))
	p.Check("format", config.Choice(c.Format, formats.GatekeeperDenies, formats.OPAConsole, formats.JSON, formats.CRI))
	return p
}

func checkPath(path string) error {
	switch {
	case strings.ContainsRune(path, 0):
		return errors.New("must not contain a NUL byte")
	case strings.Contains(path, "**"):
		return errors.New("must not contain **: one * stands for one level of directories")
	}
	if _, err := filepath.Match(path, ""); err != nil {
		return errors.New("must be a pattern that ends: a [ needs its ]")
	}
	return nil
}

// New makes the source. It opens nothing before Run.
func (c *Config) New(env sources.Env) sources.Source {
	return &source{config: *c, env: env, grace: grace, poll: poll}
}
