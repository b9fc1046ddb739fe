package sources

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

	"github.com/docket-export/docket/config"
)

// CheckListen checks a section with the keys address, tls and maxConnections. The example is an
// address of this machine alone.
func CheckListen(address string, tls *config.ServerTLS, maxConnections int, example string) config.Problems {
	var p config.Problems
	p.Check("address", config.Required(address, "is required: host:port to listen on, such as "+example),
		config.HostPort(address), checkPort(address), checkReach(address, tls, example))
	p.Check("maxConnections", config.AtLeast(maxConnections, 1))
	return append(p, tls.Validate().In("tls")...)
}

func checkReach(address string, tls *config.ServerTLS, example string) error {
	if tls == nil && !config.Loopback(address) {
		return fmt.Errorf("must be a loopback address such as %s, unless tls is set: on a network, others can read and send records", example)
	}
	return nil
}

func checkPort(address string) error {
	if _, port, _ := net.SplitHostPort(address); strings.Trim(port, "0") == "" {
		return errors.New("must have a port other than 0: senders must know the port")
	}
	return nil
}

// Listen listens on address. Connections have keep-alives, as package net gives them unless they
// are told otherwise: a peer that has vanished gives its place back within minutes.
func Listen(ctx context.Context, address string) (*net.TCPListener, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%w: stop the process that listens there or choose another address", err)
	}
	if err != nil {
		return nil, err
	}
	return ln.(*net.TCPListener), nil
}

// CheckLoopback returns an error if others can reach a listener without TLS. CheckListen looks at the
// text of the address, and a name may lead elsewhere.
func CheckLoopback(ln net.Listener) error {
	if at, ok := ln.Addr().(*net.TCPAddr); !ok || !at.IP.IsLoopback() {
		return fmt.Errorf("%s is not a loopback address: set tls, or listen on 127.0.0.1", ln.Addr())
	}
	return nil
}
