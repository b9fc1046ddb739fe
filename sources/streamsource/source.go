// Package streamsource takes in records over docket stream v1 on a Unix domain
// socket: in plain mode from anything that can write lines, in acknowledged mode
// from producers that are told what is durable.
//
//	source.go   configuration
//	listen.go   the socket and its file
//	server.go   connections, and the order of a stop
//	conn.go     one connection: from its first line to its end
//	lines.go    a stream cut into lines
//	answers.go  acks and refusals on their way back
package streamsource

import (
	"context"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sources"
)

// Definition describes the source for the registry.
var Definition = sources.Definition{
	Kind:      "unix",
	NewConfig: func() sources.Config { return &Config{Mode: "0660"} },
}

// maxPath is what the kernel takes for the path of a socket, less its final NUL.
const maxPath = 107

// Config is the section "unix" of a source.
type Config struct {
	// Path of the socket. Its directory must exist.
	Path string `yaml:"path"`
	// Mode of the socket file, octal. Who may write to it may send records.
	Mode string `yaml:"mode"`
}

// Validate reports a path that cannot be bound and a mode that is none.
func (c *Config) Validate() config.Problems {
	var p config.Problems
	switch {
	case c.Path == "":
		p.Addf("path", "is required: the path of the socket, such as /run/docket/docket.sock")
	case strings.HasPrefix(c.Path, "@"):
		p.Addf("path", "must be a file, not an abstract name: those have no mode, and every process of the network namespace could send")
	case strings.ContainsRune(c.Path, 0):
		p.Addf("path", "must not contain a NUL byte")
	case len(c.Path) > maxPath:
		p.Addf("path", "must have at most %d bytes, not %d: the kernel takes no longer path for a socket", maxPath, len(c.Path))
	}
	if mode, err := parseMode(c.Mode); err != nil {
		p.Addf("mode", "%s", err)
	} else if mode&0o222 == 0 {
		p.Addf("mode", "must let somebody write, which connecting requires: 0660, for example")
	}
	return p
}

func parseMode(s string) (fs.FileMode, error) {
	mode, err := strconv.ParseUint(s, 8, 32)
	if err != nil || mode > 0o777 {
		return 0, fmt.Errorf("must be an octal mode such as 0660, not %q", s)
	}
	return fs.FileMode(mode), nil
}

// New makes the source. It binds nothing before Run.
func (c *Config) New(env sources.Env) sources.Source {
	return &source{config: *c, env: env}
}

type source struct {
	config Config
	env    sources.Env
	server atomic.Pointer[server] // of the current Run
}

// Run serves producers; see sources.Source. A stop takes at most stopWait +
// severWait and a moment. In acknowledged mode producers then know what is
// durable and keep the rest; in plain mode what they had written is read first.
func (s *source) Run(ctx context.Context, in sources.Intake, ready func()) error {
	mode, err := parseMode(s.config.Mode)
	if err != nil {
		return fmt.Errorf("mode %w", err)
	}
	ln, err := listenUnix(ctx, s.config.Path, mode)
	if err != nil {
		return err
	}
	server := newServer(s.env, in)
	s.server.Store(server)
	defer s.server.Store(nil)
	ready()
	return server.serve(ctx, ln)
}

// Connections is the number of producers connected now.
func (s *source) Connections() int {
	if server := s.server.Load(); server != nil {
		return server.connections()
	}
	return 0
}
