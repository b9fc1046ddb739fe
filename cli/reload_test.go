package cli

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/internal/testcli"
)

// reloading is a docket whose configuration lies as a kubelet mounts a ConfigMap:
//
//	conf/docket.yaml -> ..data/docket.yaml
//	conf/..data -> ..1
//	conf/..1/docket.yaml
type reloading struct {
	t     *testing.T
	p     *process
	admin string
	mount int
}

const reloadedFile = "conf/docket.yaml"

// mountConfig writes a configuration into a new directory and has ..data lead there, at once.
func (r *reloading) mountConfig(sinks ...string) {
	r.t.Helper()
	r.mountText(r.text(sinks...))
}

func (r *reloading) text(sinks ...string) string {
	text := `apiVersion: docket.dev/v1alpha1
kind: Exporter
sources:
- name: local
  unix: {path: docket.sock}
queue: {directory: queue}
admin: {address: "` + r.admin + `"}
sinks:
`
	for _, sink := range sinks {
		name, settings, _ := strings.Cut(sink, " ")
		text += fmt.Sprintf("- name: %s\n  file: {directory: %s%s}\n", name, name, settings)
	}
	return text
}

func (r *reloading) mountText(text string) {
	r.t.Helper()
	r.mount++
	dir := fmt.Sprintf("..%d", r.mount)
	if err := os.MkdirAll(filepath.Join("conf", dir), 0o700); err != nil {
		r.t.Fatal(err)
	}
	writeFile(r.t, filepath.Join("conf", dir, "docket.yaml"), text)
	if err := os.Symlink(dir, "conf/..new"); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Rename("conf/..new", "conf/..data"); err != nil {
		r.t.Fatal(err)
	}
	if r.mount == 1 {
		if err := os.Symlink("..data/docket.yaml", reloadedFile); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *reloading) status(what string, ok func(exporter.Status) bool) exporter.Status {
	r.t.Helper()
	return waitStatus(r.t, r.admin, ok)
}

// inForce waits until so many configurations have taken effect, and the last one is.
func (r *reloading) inForce(generation int) exporter.Status {
	r.t.Helper()
	return waitStatus(r.t, r.admin, func(s exporter.Status) bool {
		return s.Config.Generation == generation && s.Config.State == exporter.Active
	})
}

func (r *reloading) start(args ...string) {
	r.t.Helper()
	r.p = startProcess(r.t, append([]string{"run", "-f", reloadedFile}, args...)...)
	if err := waitReady(r.t, r.admin); err != nil {
		r.t.Fatalf("%v\n%s", err, r.p.stderr())
	}
}

func newReloading(t *testing.T) *reloading {
	t.Helper()
	admin, err := testcli.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	return &reloading{t: t, admin: admin}
}

// A ConfigMap that changes takes effect, and no producer is cut off. A broken one changes
// nothing and is reported, until it is mended.
func TestReloadOfAConfigMap(t *testing.T) {
	r := newReloading(t)
	r.mountConfig("a", "b")
	r.start()
	var dials atomic.Int64
	producer, err := client.NewSender(client.SenderConfig{Producer: "p", Dial: func(ctx context.Context) (net.Conn, error) {
		dials.Add(1)
		return new(net.Dialer).DialContext(ctx, "unix", "docket.sock")
	}})
	if err != nil {
		t.Fatal(err)
	}
	send := func(lines int) {
		t.Helper()
		for range lines {
			if err := producer.Send(t.Context(), []byte("{}")); err != nil {
				t.Fatal(err)
			}
		}
		if err := producer.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	send(3)
	r.mountConfig("a", "b , stamp: never") // an unknown key
	s := r.status("an invalid file", func(s exporter.Status) bool { return s.Config.State == exporter.Error })
	if want := "conf/docket.yaml:12: sinks[1].file.stamp: "; s.Config.Generation != 1 || !strings.HasPrefix(s.Config.LastError, want) {
		t.Errorf("got %+v, want generation 1 and %q", s.Config, want)
	}
	send(3)
	r.mountConfig("a", "c")
	s = r.inForce(2)
	if s.Config.LastError != "" || s.Config.File != reloadedFile || s.Config.Stored != "queue/last-good.yaml" {
		t.Errorf("got %+v", s.Config)
	}
	send(3)
	r.status("b is forgotten", func(s exporter.Status) bool {
		_, ok := s.Ledger.Sinks["b"]
		return !ok && s.Ledger.Sinks["a"].Pending+s.Ledger.Sinks["c"].Pending == 0
	})
	if got := dials.Load(); got != 1 {
		t.Errorf("the producer has connected %d times, want once", got)
	}
	if got := len(exportedLines(t, "a")); got != 9 {
		t.Errorf("sink a has %d lines, want 9", got)
	}
	if got := len(exportedLines(t, "b")); got != 6 {
		t.Errorf("sink b has %d lines, want the 6 that were stored when it was removed", got)
	}
	if _, err := producer.Close(t.Context()); err != nil {
		t.Error(err)
	}
	r.p.interrupt()
	if got := r.p.wait(); got != command.ExitOK {
		t.Errorf("got exit code %d:\n%s", got, r.p.stderr())
	}
}

// A docket that redacts, be it since a reload, leaves no core.
func TestNoCore(t *testing.T) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &limit); err != nil {
		t.Fatal(err)
	}
	limit.Cur = limit.Max
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &limit); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOTRACEBACK", "crash")
	for _, reloaded := range []bool{false, true} {
		r := newReloading(t)
		redacting := strings.ReplaceAll(r.text("a"), "  unix:", "  redact: [{pointer: /secret, action: Remove}]\n  unix:")
		if reloaded {
			r.mountConfig("a")
			r.start()
			r.mountText(redacting)
			r.inForce(2)
		} else {
			r.mountText(redacting)
			r.start()
		}
		producer := dialSocket(t)
		io.WriteString(producer, `{"secret":"canary"}`+"\n")
		r.status("a record", func(s exporter.Status) bool { return s.Ledger.Stored == 1 })
		if err := r.p.cmd.Process.Signal(syscall.SIGABRT); err != nil {
			t.Fatal(err)
		}
		r.p.wait()
		producer.Close()
		status := r.p.cmd.ProcessState.Sys().(syscall.WaitStatus)
		if said := r.p.stderr(); !status.Signaled() || status.CoreDump() || !strings.Contains(said, "goroutine ") || strings.Contains(said, "canary") {
			t.Errorf("reloaded %t: got status %v, core %v, want an end by a signal without one, and goroutines and nothing of a line in\n%s", reloaded, status, status.CoreDump(), said)
		}
	}
}
