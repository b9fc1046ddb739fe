package streamsource

import (
	"context"
	"errors"
	"fmt"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sources"
)

// TCPDefinition describes the source "tcp" for the registry.
var TCPDefinition = sources.Definition{
	Kind:      "tcp",
	NewConfig: func() sources.Config { return &TCPConfig{MaxConnections: defaultConnections} },
	Sample: `# Producers elsewhere. Without tls, only this machine can reach docket.
- name: NAME
  tcp:
    # CHANGE, with tls: ":7443" for every address of this machine
    address: 127.0.0.1:PORT7443
    #tls: {certFile: /etc/docket/tls.crt, keyFile: /etc/docket/tls.key, clientCAFile: /etc/docket/producers.crt}
`,
}

// TCPConfig is the section "tcp" of a source.
type TCPConfig struct {
	// Address to listen on, host:port. Without a host: every address of the machine.
	Address string `yaml:"address"`
	// TLS is required unless only this machine can reach the address.
	TLS *config.ServerTLS `yaml:"tls"`
	// MaxConnections bounds the producers that are connected at a time.
	MaxConnections int `yaml:"maxConnections"`

	handover *handover // of the source that is made of it
}

// place is the same for sockets that are one; see UnixConfig.place.
func (c *TCPConfig) place() string { return "tcp " + c.Address }

// FormerKeys implements config.Reduced.
func (TCPConfig) FormerKeys() map[string]string { return formerKeys }

// Claims implements config.Claimer.
func (c *TCPConfig) Claims() []config.Claim {
	return []config.Claim{{Key: "address", Kind: config.Address, Value: c.Address}}
}

// Validate reports an address that is malformed or needs TLS, and TLS files without a
// name. Nothing is resolved.
func (c *TCPConfig) Validate() config.Problems {
	return sources.CheckListen(c.Address, c.TLS, c.MaxConnections, "127.0.0.1:7443")
}

// New makes the source. It binds nothing before Run.
func (c *TCPConfig) New(env sources.Env) sources.Source {
	own := *c
	own.handover = &handover{}
	return &source{env: env, listen: own.listen, place: own.place(), handover: own.handover}
}

func (c *TCPConfig) listen(ctx context.Context) (listener, gate, error) {
	g := gate{maxConnections: c.MaxConnections, handshakeWait: handshakeWait}
	if c.TLS != nil {
		var err error
		if g.tls, err = c.TLS.Server(); err != nil {
			return nil, g, fmt.Errorf("tls: %w", err)
		}
	}
	ln, err := c.handover.or(func() (listener, error) { return c.bind(ctx) })
	if err != nil {
		return nil, g, err
	}
	if g.tls == nil {
		if err := sources.CheckLoopback(ln); err != nil {
			return nil, g, errors.Join(err, ln.Close())
		}
	}
	return ln, g, nil
}

// bind makes the socket.
func (c *TCPConfig) bind(ctx context.Context) (*openListener, error) {
	ln, err := sources.Listen(ctx, c.Address)
	if err != nil {
		return nil, err
	}
	return &openListener{socketListener: ln}, nil
}
