package streamsource

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sources"
)

const (
	// maxPath is what the kernel takes for the path of a socket, less its final NUL.
	maxPath = 107
	// defaultMode lets in the user and the group that docket runs as.
	defaultMode = "0660"
)

// UnixDefinition describes the source "unix" for the registry.
var UnixDefinition = sources.Definition{
	Kind: "unix",
	NewConfig: func() sources.Config {
		return &UnixConfig{Mode: defaultMode, MaxConnections: defaultConnections}
	},
	Sample: `# Producers on this machine, such as docket send and the Go client.
- name: NAME
  unix:
    # CHANGE: a path in a directory that the producers see too, such as /run/docket/docket.sock
    path: docket-data/NAME.sock
    #mode: "0660"        # who may send: the user and the group of docket
    #group: policy       # another group than docket's own
    #allowUIDs: [1000]   # these users alone
`,
}

// UnixConfig is the section "unix" of a source.
type UnixConfig struct {
	// Path of the socket. Its directory must exist.
	Path string `yaml:"path"`
	// Mode of the socket file, octal. A process that may write to it may send records.
	Mode string `yaml:"mode"`
	// Group that the socket file belongs to; empty: that of the process.
	Group config.Group `yaml:"group"`
	// AllowUIDs are the users that may send records; empty: all users that can connect.
	AllowUIDs []uint32 `yaml:"allowUIDs"`
	// MaxConnections bounds the producers that are connected at a time.
	MaxConnections int `yaml:"maxConnections"`

	handover *handover // of the source that is made of it
}

// place is the same for a socket and one that differs in nothing of its own.
func (c *UnixConfig) place() string {
	return fmt.Sprintf("unix %q %q %q", c.Path, c.Mode, c.Group)
}

// Claims implements config.Claimer.
func (c *UnixConfig) Claims() []config.Claim {
	return []config.Claim{{Key: "path", Kind: config.Socket, Value: c.Path}}
}

// FormerKeys implements config.Reduced.
func (UnixConfig) FormerKeys() map[string]string { return formerKeys }

// formerKeys are those of both kinds.
var formerKeys = map[string]string{
	"inherited": "docket no longer takes sockets from systemd: set path or address, and docket opens the socket itself",
}

// Validate reports a path that cannot be bound, and an invalid mode.
func (c *UnixConfig) Validate() config.Problems {
	var p config.Problems
	p.Check("path", config.Required(c.Path, "is required: the path of the socket, such as /run/docket/docket.sock"), checkPath(c.Path))
	p.Check("mode", config.Required(c.Mode, "must be an octal mode such as 0660"), checkMode(c.Mode))
	p.Check("maxConnections", config.AtLeast(c.MaxConnections, 1))
	return p
}

func checkPath(path string) error {
	switch {
	case strings.HasPrefix(path, "@"):
		return errors.New("must be a file, not an abstract name: an abstract socket has no mode, so every process in the network namespace could send")
	case strings.ContainsRune(path, 0):
		return errors.New("must not contain a NUL byte")
	case len(path) > maxPath:
		return fmt.Errorf("must have at most %d bytes, not %d: the kernel does not accept a longer socket path", maxPath, len(path))
	}
	return nil
}

func checkMode(text string) error {
	mode, err := config.ParseMode(text)
	if err == nil && mode&0o200 == 0 {
		err = errors.New("must let the owner write, as 0660 does: docket connects to an old socket to see whether it is in use")
	}
	return err
}

// New makes the source. It binds nothing before Run.
func (c *UnixConfig) New(env sources.Env) sources.Source {
	own := *c
	own.handover = &handover{}
	return &source{env: env, listen: own.listen, place: own.place(), path: own.Path, handover: own.handover}
}

func (c *UnixConfig) listen(ctx context.Context) (listener, gate, error) {
	g := gate{maxConnections: c.MaxConnections}
	if len(c.AllowUIDs) > 0 {
		g.check = c.checkUser
	}
	mode, err := config.ParseMode(c.Mode)
	if err != nil {
		return nil, g, fmt.Errorf("mode %w", err)
	}
	gid, err := c.Group.Lookup()
	if err != nil {
		return nil, g, err
	}
	ln, err := c.handover.or(func() (listener, error) {
		return listenUnix(ctx, c.Path, access{mode: mode, gid: gid})
	})
	return ln, g, err
}

// checkUser reports a peer whose user is not in AllowUIDs.
func (c *UnixConfig) checkUser(nc net.Conn) error {
	cred, err := credentials(nc)
	if err != nil {
		return fault(fmt.Sprintf("cannot tell which user connects, as allowUIDs requires: %v", err))
	}
	if !slices.Contains(c.AllowUIDs, cred.Uid) {
		return fault(fmt.Sprintf("user %d may not send: it is not in allowUIDs", cred.Uid))
	}
	return nil
}

// credentials are those of the process that connected to a Unix socket, at that
// time, as they look from the namespaces of this one.
func credentials(nc net.Conn) (*syscall.Ucred, error) {
	socket, ok := nc.(*net.UnixConn)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *syscall.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); err != nil {
		return nil, err
	}
	return cred, credErr
}
