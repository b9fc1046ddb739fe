package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
)

// Server is a process that listens and has said where.
type Server struct {
	*Process
	Address string
	// Stdin is what the server reads. It has to end with it: when whoever started it
	// ends, however that happens, nothing is left behind.
	Stdin io.WriteCloser

	stdout *bufio.Reader
}

// StartServer starts a program that listens. It returns when that has said its
// address, a line on its standard output.
func StartServer(ctx context.Context, name string, args ...string) (*Server, error) {
	s := &Server{Process: newProcess(ctx, name, args)}
	var err error
	if s.Stdin, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	s.stdout = bufio.NewReader(stdout)
	if s.Address, err = s.ReadLine(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", strings.Join(args, " "), err), s.LastWords())
	}
	return s, nil
}

// ReadLine returns the next line that the server writes. It waits no longer than the
// process lives, whose context ends it.
func (s *Server) ReadLine() (string, error) {
	line, err := s.stdout.ReadString('\n')
	if errors.Is(err, io.EOF) {
		err = errors.New("it has ended without a word")
	}
	return strings.TrimSpace(line), err
}

// FreeAddress returns a loopback address that nobody listens on. Its port is none of
// those that the kernel gives to whoever connects, or asks for any: between now and its
// use nobody gets it by chance.
func FreeAddress() (string, error) {
	const first, last, attempts = 10_000, 30_000, 100
	var err error
	for range attempts {
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(last-first))); err == nil {
			return l.Addr().String(), l.Close()
		}
	}
	return "", err
}
