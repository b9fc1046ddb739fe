package destinations

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/test/internal/poll"
	"github.com/docket-export/docket/test/internal/proc"
)

const (
	// startTimeout is ten times what the slowest server takes on a small machine.
	startTimeout = 2 * time.Minute
	// askTimeout bounds one request of a test to a server.
	askTimeout = 30 * time.Second
)

// server is a real server: a process that can be killed and started again on the
// same address and data.
type server struct {
	name    string
	address string
	program string
	args    []string
	ready   func() error  // nil when it serves
	process *proc.Process // the one started last
}

// start starts s for t and waits until it serves. It ends with the test, and if
// that has failed its last words go to the log.
func (s *server) start(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		if s.process == nil {
			return
		}
		s.process.Kill()
		if t.Failed() {
			t.Logf("the last lines of %s:\n%s", s.name, s.process.Log().Tail(40))
		}
	})
	s.restart(t)
}

// kill ends the server with SIGKILL and returns when it is gone.
func (s *server) kill(t *testing.T) {
	t.Helper()
	s.process.Kill()
	t.Logf("killed %s", s.name)
}

// restart starts the server, which does not run, and waits until it serves.
func (s *server) restart(t *testing.T) {
	t.Helper()
	began := time.Now()
	p, err := proc.Start(exec.Command(s.program, s.args...))
	if err != nil {
		t.Fatal(err)
	}
	s.process = p
	ended := false
	err = poll.Until(startTimeout, func() error {
		select {
		case <-p.Done():
			ended = true
			return nil
		default:
			return s.ready()
		}
	})
	if err != nil || ended {
		t.Fatalf("%s does not serve: %v; it said:\n%s", s.name, err, p.Log().Tail(20))
	}
	t.Logf("%s serves on %s after %.1f s", s.name, s.address, time.Since(began).Seconds())
}

// ask sends a request and returns the body of the answer, which must be 2xx.
func (s *server) ask(method, path, body string, header http.Header) ([]byte, error) {
	req, err := http.NewRequest(method, "http://"+s.address+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = header
	// Without keep-alive no request can be lost to a process that is gone.
	client := http.Client{Timeout: askTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if resp.StatusCode/100 != 2 {
		return nil, fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, answer)
	}
	return answer, nil
}

// asks is ask with bodies of JSON, and an answer that is decoded unless it is nil.
func (s *server) asks(t *testing.T, method, path, body string, answer any) {
	t.Helper()
	text, err := s.ask(method, path, body, http.Header{"Content-Type": {"application/json"}})
	if err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	if answer == nil {
		return
	}
	if err := json.Unmarshal(text, answer); err != nil {
		t.Fatalf("%s: %s %s: %v in %.300s", s.name, method, path, err, text)
	}
}
