package streamsource

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// firstInherited is the number of the first descriptor that is handed over: those
// before it are the standard ones.
const firstInherited = 3

// The environment variables of systemd's socket activation, see sd_listen_fds(3).
const (
	envPID   = "LISTEN_PID"
	envFDs   = "LISTEN_FDS"
	envNames = "LISTEN_FDNAMES"
)

// Inherited are the sockets that the process was started with. They stay open for
// as long as it runs: producers that connect while nobody accepts wait in the
// kernel and, where the service manager keeps the sockets too, for the next start.
//
// A nil Inherited has none.
type Inherited struct {
	sockets []*os.File // by the names that they were handed over with
	named   bool       // whether there were names
}

// Inheritor is a sources.Config that may listen on a socket that the process was started
// with.
type Inheritor interface {
	SetInherited(*Inherited)
}

// SetInherited implements Inheritor.
func (c *UnixConfig) SetInherited(in *Inherited) { c.Sockets = in }

// SetInherited implements Inheritor.
func (c *TCPConfig) SetInherited(in *Inherited) { c.Sockets = in }

// Inherit takes over the sockets that LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES name.
// It returns nil if there are none. A child process cannot take the sockets for its
// own: they are closed for the child, and the variables are removed. So a second call
// finds no sockets. The kind of a socket is checked when a source asks for it.
func Inherit() (*Inherited, error) {
	pid, count := os.Getenv(envPID), os.Getenv(envFDs)
	names, named := os.LookupEnv(envNames)
	for _, name := range []string{envPID, envFDs, envNames} {
		if err := os.Unsetenv(name); err != nil {
			return nil, err
		}
	}
	if pid != strconv.Itoa(os.Getpid()) {
		return nil, nil
	}
	n, err := strconv.ParseUint(count, 10, 10) // more than a thousand is a mistake
	if err != nil {
		return nil, fmt.Errorf("%s must be the number of sockets, not %q", envFDs, count)
	}
	list := slices.Repeat([]string{"unknown"}, int(n)) // what systemd calls them then
	if named {
		list = strings.Split(names, ":")
	}
	if len(list) != int(n) {
		return nil, fmt.Errorf("%s must have as many names as %s (%d), not %d", envNames, envFDs, n, len(list))
	}
	in := &Inherited{named: named}
	for i, name := range list {
		fd := firstInherited + i
		// A number too high may well be open: the runtime has descriptors too.
		var stat syscall.Stat_t
		if err := syscall.Fstat(fd, &stat); err != nil || stat.Mode&syscall.S_IFMT != syscall.S_IFSOCK {
			return nil, fmt.Errorf("%s is %d, but descriptor %d is not a socket", envFDs, n, fd)
		}
		syscall.CloseOnExec(fd)
		in.sockets = append(in.sockets, os.NewFile(uintptr(fd), name))
	}
	return in, nil
}

// listen returns the socket called name, which must listen for connections of
// network, "unix" or "tcp". To close what it returns leaves the socket open.
func (in *Inherited) listen(name, network string) (*openListener, error) {
	file, err := in.find(name)
	if err != nil {
		return nil, err
	}
	if err := checkListening(file, network); err != nil {
		return nil, fmt.Errorf("inherited socket %q: %w", name, err)
	}
	ln, err := net.FileListener(file)
	if err != nil {
		return nil, fmt.Errorf("inherited socket %q: %w", name, err)
	}
	l := &openListener{socketListener: ln.(socketListener)}
	// Whose file docket cannot see, as in another mount namespace, it cannot miss.
	if name := ln.Addr().String(); network == "unix" {
		if l.file, err = os.Lstat(name); err == nil {
			l.name = name
		}
	}
	return l, nil
}

// find returns the socket called name. Where nothing has a name, the only socket
// there is will do.
func (in *Inherited) find(name string) (*os.File, error) {
	if in == nil || len(in.sockets) == 0 {
		return nil, fmt.Errorf("no socket %q: this process inherited no sockets: start its socket unit, or let docket open the socket", name)
	}
	if !in.named && len(in.sockets) == 1 {
		return in.sockets[0], nil
	}
	var found []*os.File
	var names []string
	for _, s := range in.sockets {
		names = append(names, strconv.Quote(s.Name()))
		if s.Name() == name {
			found = append(found, s)
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("no socket %q among the inherited sockets %s: correct the name, or FileDescriptorName= of the socket unit",
			name, strings.Join(names, ", "))
	case 1:
		return found[0], nil
	}
	return nil, fmt.Errorf("%d inherited sockets are called %q: give each socket its own unit and FileDescriptorName=", len(found), name)
}

// checkListening reports why file cannot be what a source accepts from.
func checkListening(file *os.File, network string) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var domain, kind, accepts int
	var abstract bool
	var optErr error
	if err := raw.Control(func(fd uintptr) {
		if name, err := unix.Getsockname(int(fd)); err == nil {
			local, isUnix := name.(*unix.SockaddrUnix)
			abstract = isUnix && strings.HasPrefix(local.Name, "@")
		}
		for _, option := range []struct {
			name int
			into *int
		}{{syscall.SO_DOMAIN, &domain}, {syscall.SO_TYPE, &kind}, {syscall.SO_ACCEPTCONN, &accepts}} {
			var err error
			*option.into, err = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, option.name)
			optErr = errors.Join(optErr, err)
		}
	}); err != nil {
		return err
	}
	isTCP := domain == syscall.AF_INET || domain == syscall.AF_INET6
	switch {
	case optErr != nil:
		return optErr
	case network == "unix" && domain != syscall.AF_UNIX:
		return errors.New("is not a Unix socket: its socket unit needs ListenStream= with a path")
	case network == "tcp" && !isTCP:
		return errors.New("is not a TCP socket: its socket unit needs ListenStream= with a port")
	case kind != syscall.SOCK_STREAM:
		return errors.New("is not a stream socket: its socket unit needs ListenStream=")
	case abstract:
		return errors.New("is an abstract socket without a mode, so every process in the network namespace could send: its socket unit needs ListenStream= with a path")
	case accepts == 0:
		return errors.New("does not listen: its socket unit needs Accept=no")
	}
	return nil
}
