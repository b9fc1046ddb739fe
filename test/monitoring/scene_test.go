package monitoring

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/docket-export/docket/test/dockettest"
)

// scene is one docket with a destination of its own, on which something is to go wrong.
type scene struct {
	*dockettest.Docket
	t           *testing.T
	answer      atomic.Int64 // status with which the destination answers
	destination *httptest.Server
	url         string           // of the destination
	other       *httptest.Server // in the way of a source
	sent        int
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{Docket: dockettest.New(t), t: t}
	s.answer.Store(http.StatusOK)
	destination := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body) // an answer before the end of the request is a failure
		status := int(s.answer.Load())
		if status == http.StatusUnprocessableEntity && n < 1000 {
			status = http.StatusOK // without one that is accepted, no refusal would count
		}
		w.WriteHeader(status)
		if status != http.StatusOK {
			fmt.Fprintln(w, "the destination was told to answer", status)
		}
	}))
	t.Cleanup(destination.Close)
	s.destination, s.url = destination, destination.URL
	return s
}

// path is a file of the scene.
func (s *scene) path(name string) string { return filepath.Join(s.Dir, name) }

// config is a configuration with a Unix source called api and an HTTP sink called siem. The
// arguments are more keys of the queue and of the sink, each followed by a comma, and
// sources.
func (s *scene) config(queue, sink, sources string) string {
	if !strings.Contains(sink, "retry:") {
		sink += "retry: {initialBackoff: 100ms, maxBackoff: 1s}, "
	}
	return fmt.Sprintf(`apiVersion: docket.dev/v1alpha1
kind: Exporter
sources:
- name: api
  unix: {path: %q}
%squeue: {%sdirectory: %q}
sinks:
- {name: siem, %sbatch: {maxWait: 100ms}, http: {url: %q}}
`, s.Socket, sources, queue, s.path("queue"), sink, s.url)
}

// lines are n records of about size bytes.
func (s *scene) lines(n, size int) []byte {
	var b bytes.Buffer
	for range n {
		s.sent++
		fmt.Fprintf(&b, `{"schemaVersion":1,"decision":"deny","name":"require-team","number":%d,"filler":"%s"}`+"\n", s.sent, strings.Repeat("x", size))
	}
	return b.Bytes()
}

// dial connects to the source as a producer of plain lines does.
func (s *scene) dial() net.Conn {
	s.t.Helper()
	conn, err := net.Dial("unix", s.Socket)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// write sends lines and does not wait for the answer.
func (s *scene) write(lines string) {
	s.t.Helper()
	if _, err := s.dial().Write([]byte(lines)); err != nil {
		s.t.Fatal(err)
	}
}

// pour sends n lines of size bytes, one each interval, as fast as docket takes them. It
// returns at once.
func (s *scene) pour(n, size int, interval time.Duration) {
	s.t.Helper()
	conn := s.dial()
	var pouring sync.WaitGroup
	s.t.Cleanup(func() { _ = conn.Close(); pouring.Wait() })
	pouring.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for range n {
			if _, err := conn.Write(s.lines(1, size)); err != nil {
				return // at the end of the test
			}
			<-ticker.C
		}
	})
}

// delivered waits until the sink has all.
func (s *scene) delivered() {
	s.t.Helper()
	s.Await("the delivery", time.Minute, func(st dockettest.Status) error {
		if l := st.Ledger.Sinks["siem"]; l.Delivered != st.Ledger.Stored {
			return fmt.Errorf("%+v of %d", l, st.Ledger.Stored)
		}
		return nil
	})
}

// damage writes over the record with that number in the queue of a docket that does not run.
func (s *scene) damage(number int) {
	s.t.Helper()
	segments, err := filepath.Glob(s.path("queue/*.segment"))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, path := range segments {
		text, err := os.ReadFile(path)
		if err != nil {
			s.t.Fatal(err)
		}
		at := bytes.Index(text, fmt.Appendf(nil, `"number":%d,`, number))
		if at < 0 {
			continue
		}
		copy(text[at:], "damage")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			s.t.Fatal(err)
		}
		return
	}
	s.t.Fatalf("no segment of %v has record %d", segments, number)
}

// edit replaces a text in the configuration file, as an editor does.
func (s *scene) edit(old, text string) {
	s.t.Helper()
	before, err := os.ReadFile(s.ConfigFile())
	if err != nil {
		s.t.Fatal(err)
	}
	after := strings.Replace(string(before), old, text, 1)
	if after == string(before) {
		s.t.Fatalf("%s has no %q", s.ConfigFile(), old)
	}
	if err := os.WriteFile(s.ConfigFile()+".new", []byte(after), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(s.ConfigFile()+".new", s.ConfigFile()); err != nil {
		s.t.Fatal(err)
	}
}

// fill writes a file until its file system is full.
func fill(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for piece := make([]byte, 64<<10); err == nil; {
		_, err = file.Write(piece)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}
