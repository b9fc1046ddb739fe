// Package server runs a real server for a test: a process that can be killed and
// started again with the same arguments on the same data.
package server

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docket-export/docket/test/internal/poll"
	"github.com/docket-export/docket/test/internal/proc"
)

const (
	// startTimeout is far beyond what the slowest server takes on a small machine that
	// is busy with more.
	startTimeout = 5 * time.Minute
	// stopTimeout is beyond every server's own bound for an orderly stop.
	stopTimeout = 3 * time.Minute
)

// Server is one server. Its methods report what goes wrong through the test it was
// started for, and belong on that test's goroutine.
type Server struct {
	Name    string // for people: "etcd"
	Program string
	Args    []string
	Env     []string     // beside that of the test
	Log     string       // file that its output is added to, over all its starts; "": one of its own
	Ready   func() error // nil when it serves

	t       testing.TB
	process *proc.Process // the one started last
}

// Start starts the server for t and waits until it serves. It ends with the test; if
// that has failed, its last words go to the test's log.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	s.t = t
	if s.Log == "" {
		s.Log = filepath.Join(t.TempDir(), "log")
	}
	t.Cleanup(s.end)
	s.Restart()
}

// Restart starts the server, which does not run, and waits until it serves.
func (s *Server) Restart() {
	s.t.Helper()
	began := time.Now()
	// It writes to the file by itself: what it has said before it is killed is there.
	log, err := os.OpenFile(s.Log, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(s.Program, s.Args...)
	cmd.Env = append(os.Environ(), s.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	if s.process, err = proc.Start(cmd); err != nil {
		s.t.Fatal(err)
	}
	ended := false
	err = poll.Until(startTimeout, func() error {
		select {
		case <-s.process.Done():
			ended = true
			return nil
		default:
			return s.Ready()
		}
	})
	if ended {
		s.t.Fatalf("%s ended at its start: %s; it said:\n%s", s.Name, s.process.End(), s.tail(20))
	}
	if err != nil {
		s.t.Fatalf("%s does not serve: %v; it said:\n%s", s.Name, err, s.tail(20))
	}
	s.t.Logf("%s serves after %.1f s", s.Name, time.Since(began).Seconds())
}

// Kill ends the server with SIGKILL and returns when it is gone.
func (s *Server) Kill() {
	s.t.Helper()
	s.process.Kill()
	s.t.Logf("killed %s", s.Name)
}

// Stop stops the server in order. One that has ended already stays so.
func (s *Server) Stop() {
	s.t.Helper()
	began := time.Now()
	s.process.Signal(syscall.SIGTERM)
	select {
	case <-s.process.Done():
		s.t.Logf("%s stopped after %.1f s", s.Name, time.Since(began).Seconds())
	case <-time.After(stopTimeout):
		s.t.Fatalf("%s still runs %v after SIGTERM; it said:\n%s", s.Name, stopTimeout, s.tail(20))
	}
}

// end kills what still runs: nobody needs its data any more.
func (s *Server) end() {
	if s.process == nil {
		return
	}
	s.process.Kill()
	if s.t.Failed() {
		s.t.Logf("the last lines of %s:\n%s", s.Name, s.tail(40))
	}
}

// tail returns the last n lines of the server's log, long ones cut short.
func (s *Server) tail(n int) string {
	text, err := os.ReadFile(s.Log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	lines = lines[max(0, len(lines)-n):]
	const most = 500
	for i, line := range lines {
		lines[i] = line[:min(len(line), most)]
	}
	return strings.Join(lines, "\n")
}
