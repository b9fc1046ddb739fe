package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// connectTimeout bounds one attempt, TLS handshake included: an address from
	// which nothing comes back must not hold up the next attempt for minutes.
	connectTimeout = 5 * time.Second
	// maxSocketPath is what the kernel has room for, less a zero byte.
	maxSocketPath = 107
)

// Dial makes one connection to the exporter. ctx bounds the attempt only: the
// connection outlives it. Calls do not overlap.
type Dial = func(ctx context.Context) (net.Conn, error)

// Transport is a way to the exporter. New calls it once, with the whole address
// and the configuration, of which it keeps what it needs. It must not touch the
// network: that is for Dial to do. An error is a mistake in address or in c.
type Transport func(address string, c *Config) (Dial, error)

// transport returns the way to c.Address, by its scheme. own says that it is one of
// c.Transports. The error is a problem.
func (c *Config) transport() (t Transport, own bool, err error) {
	scheme, _, ok := strings.Cut(c.Address, "://")
	if !ok {
		return nil, false, Problem{Key: "address", Text: "must be unix:// and an absolute path, such as unix:///run/docket/docket.sock, or tcp:// and host:port"}
	}
	if t := c.Transports[scheme]; t != nil {
		return t, true, nil
	}
	switch scheme {
	case "unix":
		return unixTransport, false, nil
	case "tcp":
		return tcpTransport, false, nil
	}
	known := slices.AppendSeq([]string{"tcp", "unix"}, maps.Keys(c.Transports))
	slices.Sort(known)
	return nil, false, Problem{Key: "address", Text: fmt.Sprintf("must have a known scheme: %s%s",
		strings.Join(slices.Compact(known), ", "), not(scheme))}
}

// dial returns the way to the exporter at c.Address, which must not be empty.
// Every attempt is bounded by connectTimeout. An error is a mistake in c.
func (c *Config) dial() (Dial, error) {
	t, own, err := c.transport()
	if err != nil {
		return nil, err
	}
	dial, err := t(c.Address, c)
	switch {
	case err != nil && own:
		return nil, Problem{Key: "address", Text: err.Error()}
	case err != nil:
		return nil, err
	case dial == nil:
		return nil, Problem{Key: "address", Text: "its transport returned no Dial function"}
	}
	return func(ctx context.Context) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, connectTimeout)
		defer cancel()
		return dial(ctx)
	}, nil
}

// addressProblems says what is wrong with c.Address, as far as the package knows
// the transport.
func (c *Config) addressProblems() problems {
	t, own, err := c.transport()
	if err == nil && !own {
		_, err = t(c.Address, c)
	}
	if found, ok := errors.AsType[Problem](err); ok {
		return problems{found}
	}
	return nil
}

// abstractName says why a socket without a file is refused.
const abstractName = "must not be an abstract socket (@), because any process could take its name and receive the records: use a path"

// unixTransport connects to a Unix domain socket.
func unixTransport(address string, c *Config) (Dial, error) {
	socket := strings.TrimPrefix(address, "unix://")
	if text := socketProblem(socket); text != "" {
		return nil, Problem{Key: "address", Text: text}
	}
	if c.TLS != nil {
		return nil, Problem{Key: "tls", Text: "must not be set for a unix address: the mode of the socket protects it"}
	}
	return func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}, nil
}

func socketProblem(socket string) string {
	switch {
	case strings.HasPrefix(socket, "@") || strings.HasPrefix(socket, "\x00"):
		return abstractName
	case strings.ContainsRune(socket, 0):
		return "must not have a zero byte in it"
	case socket == "" || strings.HasSuffix(socket, "/"):
		return "must name a socket, such as unix:///run/docket/docket.sock"
	case !path.IsAbs(socket):
		return "must have an absolute path, with three slashes: did you mean unix:///" + socket + "?"
	case len(socket) > maxSocketPath:
		return fmt.Sprintf("must have a path of at most %d bytes, not %d", maxSocketPath, len(socket))
	}
	return ""
}

// tcpTransport connects to a host and port, with TLS if c has it.
func tcpTransport(address string, c *Config) (Dial, error) {
	hostPort := strings.TrimPrefix(address, "tcp://")
	host, err := hostOf(hostPort)
	if err != nil {
		return nil, Problem{Key: "address", Text: "must be tcp:// and " + err.Error()}
	}
	if c.TLS == nil && !loopback(host) {
		return nil, Problem{Key: "address", Text: "must be a loopback address unless tls is set: without tls, others on the network could read the records"}
	}
	// A peer that vanished without a word while nothing was under way to it is
	// noticed in half a minute.
	dialer := &net.Dialer{
		Control: noticeVanished,
		KeepAliveConfig: net.KeepAliveConfig{
			Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3,
		},
	}
	plain := func(ctx context.Context) (net.Conn, error) {
		return dialer.DialContext(ctx, "tcp", hostPort)
	}
	if c.TLS == nil {
		return plain, nil
	}
	return c.TLS.over(plain, host), nil
}

var hostForm = regexp.MustCompile(`^[A-Za-z0-9._:%-]+$`)

// hostOf returns the host of "host:port" or "[host]:port". Nothing is resolved.
// The error does not show the address: there may be a password in it.
func hostOf(hostPort string) (string, error) {
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil || !hostForm.MatchString(host) {
		return "", errors.New("host:port such as docket.example.com:7443, with an IPv6 host in brackets and nothing else")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", errors.New("host:port with a port from 1 to 65535")
	}
	return host, nil
}

// loopback reports whether host can only be this one.
func loopback(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

func transportProblems(transports map[string]Transport) problems {
	var found problems
	for _, scheme := range slices.Sorted(maps.Keys(transports)) {
		if scheme == "" || strings.Contains(scheme, "://") {
			found.addf("transports", "a scheme must not be empty or contain ://%s", not(scheme))
		}
		if transports[scheme] == nil {
			found.addf("transports["+scheme+"]", "must not be nil")
		}
	}
	return found
}
