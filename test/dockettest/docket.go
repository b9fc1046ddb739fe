// Package dockettest runs the real docket for a test: the binary of this
// repository as a process of its own, asked over its admin endpoint and fed over
// its socket, as operators and producers do.
package dockettest

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/docket-export/docket/test/internal/freeport"
	"github.com/docket-export/docket/test/internal/poll"
	"github.com/docket-export/docket/test/internal/proc"
)

const (
	// These are beyond what docket takes on a machine that is busy and whose disk
	// stands still now and then: they bound a test that hangs.

	// startTimeout bounds a start of docket, which syncs several files one after
	// the other.
	startTimeout = 5 * time.Minute
	// stopTimeout leaves room for the default drain.
	stopTimeout = 5 * time.Minute
	// answerTimeout bounds one request to the admin endpoint, which answers
	// from memory.
	answerTimeout = 30 * time.Second
	// sendTimeout bounds one run of docket send.
	sendTimeout = 5 * time.Minute
)

// Docket is one installation of docket: a directory with its configuration and
// data, and the process that runs on it, if one does. Its methods report what
// goes wrong through the test it belongs to, and are for that test's goroutine.
type Docket struct {
	Dir    string // holds everything; ends with the test
	Socket string // path for "sources: unix", inside Dir
	Admin  string // address for "admin", host:port

	t         testing.TB
	binary    string
	http      *http.Client
	processes []*proc.Process // every "docket run"; only the last may be alive
}

// New returns an installation on which nothing runs yet.
func New(t testing.TB) *Docket {
	t.Helper()
	bin := Program(t)
	//nolint:usetesting // a socket's path is short, that of t.TempDir grows with the test's name
	dir, err := os.MkdirTemp("", "docket-test-")
	if err != nil {
		t.Fatal(err)
	}
	addresses, err := freeport.Loopback(1)
	if err != nil {
		t.Fatal(err)
	}
	d := &Docket{
		Dir:    dir,
		Socket: filepath.Join(dir, "docket.sock"),
		Admin:  addresses[0],
		t:      t,
		binary: bin,
		// Without keep-alive no request can be lost to a process that is gone.
		http: &http.Client{Timeout: answerTimeout, Transport: &http.Transport{DisableKeepAlives: true}},
	}
	t.Cleanup(d.end)
	return d
}

// Start runs "docket run" with config as its configuration file, to which it adds
// the section "admin", and returns when /readyz answers 200.
func (d *Docket) Start(config string) {
	d.t.Helper()
	d.start(config, "/readyz")
}

// StartUnready is Start for a docket that cannot become ready: it returns when /livez
// answers 200.
func (d *Docket) StartUnready(config string) {
	d.t.Helper()
	d.start(config, "/livez")
}

func (d *Docket) start(config, path string) {
	d.t.Helper()
	file := d.ConfigFile()
	text := fmt.Sprintf("%s\nadmin: {address: %q}\n", config, d.Admin)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
	began := time.Now()
	p, err := proc.Start(exec.Command(d.binary, "run", "-f", file))
	if err != nil {
		d.t.Fatal(err)
	}
	d.processes = append(d.processes, p)
	err = poll.Until(startTimeout, func() error {
		d.alive()
		_, err := d.get(path)
		return err
	})
	if err != nil {
		d.t.Fatalf("docket does not answer %s with 200: %v", path, err)
	}
	d.t.Logf("docket answers %s with 200 after %.2f s", path, time.Since(began).Seconds())
}

// Kill ends docket with SIGKILL and returns when it is gone.
func (d *Docket) Kill() {
	d.t.Helper()
	d.last().Kill()
}

// Freeze stops docket without ending it: it keeps its connections, and takes up what
// was sent to it meanwhile when Thaw lets it go on.
func (d *Docket) Freeze() { d.last().Signal(syscall.SIGSTOP) }

// Thaw lets a frozen docket go on.
func (d *Docket) Thaw() { d.last().Signal(syscall.SIGCONT) }

// Stop sends SIGTERM and waits for the end, which must be exit code 0.
func (d *Docket) Stop() {
	d.t.Helper()
	began := time.Now()
	if err := d.last().Stop(stopTimeout); err != nil {
		d.t.Fatalf("stop docket: %v", err)
	}
	d.t.Logf("docket stopped in order after %.2f s", time.Since(began).Seconds())
}

// Send streams lines, each ended by a newline, by "docket send" and returns when
// all of them are acknowledged.
func (d *Docket) Send(lines []byte) {
	d.t.Helper()
	cmd := exec.Command(d.binary, "send", "--socket", d.Socket)
	cmd.Stdin = bytes.NewReader(lines)
	p, err := proc.Start(cmd)
	if err != nil {
		d.t.Fatal(err)
	}
	select {
	case <-p.Done():
	case <-time.After(sendTimeout):
		p.Kill()
	}
	if err := p.Wait(); err != nil {
		d.t.Fatalf("docket send: %v; it said:\n%s", err, p.Log().Tail(20))
	}
}

// alive ends the test when docket has ended by itself.
func (d *Docket) alive() {
	d.t.Helper()
	select {
	case <-d.last().Done():
		d.t.Fatalf("docket has ended: %s", d.last().End())
	default:
	}
}

// last is the process that was started last.
func (d *Docket) last() *proc.Process { return d.processes[len(d.processes)-1] }

// end kills the process if it still runs, shows what all of them said if the test
// has failed, and removes the directory.
func (d *Docket) end() {
	for i, p := range d.processes {
		p.Kill()
		if d.t.Failed() {
			d.t.Logf("the last lines of docket, start %d of %d:\n%s", i+1, len(d.processes), p.Log().Tail(200))
		}
	}
	if err := os.RemoveAll(d.Dir); err != nil {
		d.t.Error(err)
	}
}
