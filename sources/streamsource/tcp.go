package streamsource

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

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
	return config.Check(c)
}

// Rules implements config.Ruled.
func (c *TCPConfig) Rules() []config.Rule {
	return []config.Rule{
		config.Required("address", "is required: host:port to listen on, such as :7443"),
		config.Text("address", config.HostPort, config.HostPortShape),
		config.Text("address", checkPort, config.PortShape),
		config.Text("address", checkLoopback, config.LoopbackShape).When(config.Set("tls").Not()),
		config.AtLeast("maxConnections", 1),
	}
}

func checkPort(address string) error {
	if _, port, _ := net.SplitHostPort(address); strings.Trim(port, "0") == "" {
		return errors.New("must have a port other than 0: producers must know the port")
	}
	return nil
}

func checkLoopback(address string) error {
	if !config.Loopback(address) {
		return errors.New("must be a loopback address such as 127.0.0.1:7443, unless tls is set: on a network, others can read and send records")
	}
	return nil
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
	// What was said of the text holds for the address that it has led to as well.
	if at, ok := ln.Addr().(*net.TCPAddr); g.tls == nil && !(ok && at.IP.IsLoopback()) {
		err := fmt.Errorf("%s is not a loopback address: set tls, or listen on 127.0.0.1", ln.Addr())
		return nil, g, errors.Join(err, ln.Close())
	}
	return ln, g, nil
}

// bind makes the socket. Connections have keep-alives, as those of package net do
// unless they are told otherwise: a peer that has vanished gives its place back
// within minutes.
func (c *TCPConfig) bind(ctx context.Context) (*openListener, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%w: stop the process that listens there or choose another address", err)
	}
	if err != nil {
		return nil, err
	}
	return &openListener{socketListener: ln.(*net.TCPListener)}, nil
}
