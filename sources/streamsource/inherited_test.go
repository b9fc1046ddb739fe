package streamsource

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// handOver makes c a process that was started with files, as systemd does: with
// variables that say how many and, here by the shell, for which process.
func (c *childProcess) handOver(variables string, files ...*os.File) {
	c.t.Helper()
	args := append([]string{"-c", variables + ` exec "$0" "$@"`}, c.Args...)
	shell := exec.Command("/bin/sh", args...)
	shell.Env, shell.Stdin, shell.Stdout, shell.Stderr = c.Env, c.Stdin, c.Stdout, c.Stderr
	shell.ExtraFiles = files
	c.Cmd = shell
}

// listening returns the file of a listening socket, and where it listens.
func listening(t *testing.T, network, address string) (*os.File, net.Addr) {
	t.Helper()
	ln, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	if unix, ok := ln.(*net.UnixListener); ok {
		unix.SetUnlinkOnClose(false)
	}
	file, err := ln.(interface{ File() (*os.File, error) }).File()
	if err != nil {
		t.Fatal(err)
	}
	ln.Close() // file is another descriptor of the same socket
	t.Cleanup(func() { file.Close() })
	return file, ln.Addr()
}

func dialAddr(t *testing.T, at net.Addr) *peer {
	t.Helper()
	nc, err := net.Dial(at.Network(), at.String())
	if err != nil {
		t.Fatal(err)
	}
	return newPeer(t, nc.(halfConn))
}

// One socket serves one process after the other, and one Run after the other:
// producers that connect in between wait in it.
func TestInheritedSocket(t *testing.T) {
	t.Parallel()
	for kind, address := range map[string]string{"unix": filepath.Join(t.TempDir(), "s"), "tcp": "127.0.0.1:0"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			file, at := listening(t, kind, address)
			for _, producer := range []string{"a", "b"} {
				early := dialAddr(t, at) // waits for the process
				early.send(`{"docket":{"version":1,"producer":"` + producer + `","next":1}}` + "\n{}\n")
				c := newChild(t, "inherit", kind, "docket")
				c.handOver("LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=docket", file)
				if got := c.start(); got != "ready" {
					t.Fatalf("child: got %s, want ready", got)
				}
				early.expect(`{"docket":{"version":1,"acked":0}}`, `{"ack":1}`)
				c.terminate()
				early.expectClosing("the exporter is stopping")
				c.expect("1 lines")

				late := dialAddr(t, at)
				late.send("{}\n")
				late.closeWrite()
				c.expect("ready")
				late.expectEnd()
				c.terminate()
				c.expect("2 lines")
				if err := c.Wait(); err != nil {
					t.Fatalf("child: got %v, want exit code 0", err)
				}
			}
			if path := at.String(); kind == "unix" {
				if _, err := os.Lstat(path); err != nil {
					t.Errorf("the file of the socket is gone, want it left to its owner: %v", err)
				}
			}
		})
	}
}

func (c *childProcess) expect(want string) {
	c.t.Helper()
	if got := c.line(); got != want {
		c.t.Fatalf("child: got %s, want %s", got, want)
	}
}

func (c *childProcess) terminate() {
	c.t.Helper()
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		c.t.Fatal(err)
	}
}

// What cannot be used is refused with what to do about it.
func TestInheritedSocketThatIsNone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	unix, _ := listening(t, "unix", filepath.Join(dir, "s"))
	tcp, _ := listening(t, "tcp", "127.0.0.1:0")
	everywhere, _ := listening(t, "tcp", ":0")
	regular, err := os.Create(filepath.Join(dir, "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer regular.Close()
	packet := bound(t, syscall.SOCK_DGRAM, filepath.Join(dir, "d"))
	silent := bound(t, syscall.SOCK_STREAM, filepath.Join(dir, "n"))

	one := func(names string) string { return "LISTEN_PID=$$ LISTEN_FDS=1 " + names }
	for name, test := range map[string]struct {
		kind      string
		variables string
		files     []*os.File
		want      string
	}{
		"nothing":              {"unix", "", nil, `no socket "docket": this process inherited no sockets: start its socket unit, or let docket open the socket`},
		"for another process":  {"unix", "LISTEN_PID=1 LISTEN_FDS=1", []*os.File{unix}, `no socket "docket": this process inherited no sockets: start its socket unit, or let docket open the socket`},
		"none of them":         {"unix", "LISTEN_PID=$$ LISTEN_FDS=0", nil, `no socket "docket": this process inherited no sockets: start its socket unit, or let docket open the socket`},
		"not a number":         {"unix", "LISTEN_PID=$$ LISTEN_FDS=many", nil, `LISTEN_FDS must be the number of sockets, not "many"`},
		"not there":            {"unix", "LISTEN_PID=$$ LISTEN_FDS=2", []*os.File{unix}, "LISTEN_FDS is 2, but descriptor 4 is not a socket"},
		"too few names":        {"unix", "LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=docket", []*os.File{unix, tcp}, "LISTEN_FDNAMES must have as many names as LISTEN_FDS (2), not 1"},
		"another name":         {"unix", "LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=a:b", []*os.File{unix, tcp}, `no socket "docket" among the inherited sockets "a", "b": correct the name, or FileDescriptorName= of the socket unit`},
		"the only one, named":  {"unix", one("LISTEN_FDNAMES=a"), []*os.File{unix}, `no socket "docket" among the inherited sockets "a": correct the name, or FileDescriptorName= of the socket unit`},
		"two, without names":   {"unix", "LISTEN_PID=$$ LISTEN_FDS=2", []*os.File{unix, tcp}, `no socket "docket" among the inherited sockets "unknown", "unknown": correct the name, or FileDescriptorName= of the socket unit`},
		"two of one name":      {"unix", "LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=docket:docket", []*os.File{unix, tcp}, `2 inherited sockets are called "docket": give each socket its own unit and FileDescriptorName=`},
		"TCP for unix":         {"unix", one("LISTEN_FDNAMES=docket"), []*os.File{tcp}, `inherited socket "docket": is not a Unix socket: its socket unit needs ListenStream= with a path`},
		"unix for TCP":         {"tcp", one("LISTEN_FDNAMES=docket"), []*os.File{unix}, `inherited socket "docket": is not a TCP socket: its socket unit needs ListenStream= with a port`},
		"datagrams":            {"unix", one("LISTEN_FDNAMES=docket"), []*os.File{packet}, `inherited socket "docket": is not a stream socket: its socket unit needs ListenStream=`},
		"does not listen":      {"unix", one("LISTEN_FDNAMES=docket"), []*os.File{silent}, `inherited socket "docket": does not listen: its socket unit needs Accept=no`},
		"a file":               {"unix", one("LISTEN_FDNAMES=docket"), []*os.File{regular}, "LISTEN_FDS is 1, but descriptor 3 is not a socket"},
		"plain TCP everywhere": {"tcp", one("LISTEN_FDNAMES=docket"), []*os.File{everywhere}, "is not a loopback address: set tls, or listen on 127.0.0.1"},
		"good":                 {"unix", "LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=a:docket", []*os.File{tcp, unix}, "ready"},
		"good without a name":  {"tcp", "LISTEN_PID=$$ LISTEN_FDS=1", []*os.File{tcp}, "ready"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newChild(t, "inherit", test.kind, "docket")
			c.handOver(test.variables, test.files...)
			if got := c.start(); !strings.HasSuffix(strings.Split(got, "\n")[0], test.want) {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// bound returns a socket that is bound and does not listen.
func bound(t *testing.T, kind int, path string) *os.File {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_UNIX, kind|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), path)
	t.Cleanup(func() { f.Close() })
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestInheritedAbstractSocket(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("unix", fmt.Sprintf("@docket-test-%d", os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	file, err := ln.(*net.UnixListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := checkListening(file, "unix"); err == nil || !strings.Contains(err.Error(), "is an abstract socket") {
		t.Errorf("got %v, want that it is an abstract socket", err)
	}
}
