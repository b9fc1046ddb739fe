package process

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/docket-export/docket/bench/trial"
)

// Server is a process that listens and has said where.
type Server struct {
	*Process
	Address string
	// Stdin is what the server reads. It has to end with it: when this process ends,
	// however that happens, nothing is left behind.
	Stdin io.WriteCloser

	stdout *bufio.Reader
}

// StartServer starts a program that listens. It returns when that has said its
// address, a line on its standard output.
func StartServer(t *trial.T, name string, args ...string) *Server {
	s := &Server{Process: newProcess(t, name, args)}
	s.Stdin = trial.Must(s.cmd.StdinPipe())
	s.stdout = bufio.NewReader(trial.Must(s.cmd.StdoutPipe()))
	s.start(t)
	s.Address = s.ReadLine()
	return s
}

// ReadLine returns the next line that the server writes. It waits no longer than the
// process lives, whose context ends it.
func (s *Server) ReadLine() string {
	line, err := s.stdout.ReadString('\n')
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("%s has ended without a word", strings.Join(s.cmd.Args, " "))
	}
	trial.Check(err)
	return strings.TrimSpace(line)
}

// startWait is how long a program may take to start on a busy machine.
const startWait = time.Minute

// AwaitSocket returns when the Unix socket takes a connection. It looks once in a pause.
func AwaitSocket(t *trial.T, socket string, pause time.Duration) {
	t.Poll("for "+socket, pause, startWait, func() bool {
		nc, err := net.Dial("unix", socket)
		if err == nil {
			nc.Close()
		}
		return err == nil
	})
}

// FreeAddress returns a loopback address that nobody listens on. Its port is none of
// those that the kernel gives to clients and to listeners without one: between now and
// its use nobody gets it by chance.
func FreeAddress() string {
	const first, last, attempts = 10_000, 30_000, 100
	var err error
	for range attempts {
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(last-first))); err == nil {
			trial.Check(l.Close())
			return l.Addr().String()
		}
	}
	trial.Check(err)
	return ""
}
