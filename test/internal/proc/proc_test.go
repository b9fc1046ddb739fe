package proc_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/docket-export/docket/test/internal/proc"
)

// timeout is far beyond what any of these tests needs.
const timeout = 30 * time.Second

func TestStop(t *testing.T) {
	tests := map[string]struct {
		script  string // prints "ready" when its traps are set
		timeout time.Duration
		want    string // the error, "" for none
	}{
		"ends with 0": {
			script:  "trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done",
			timeout: timeout,
		},
		"ends with 3": {
			script:  "trap 'exit 3' TERM; echo ready; while :; do sleep 0.01; done",
			timeout: timeout,
			want:    "exit status 3",
		},
		"does not end": {
			script:  "trap '' TERM; echo ready; while :; do sleep 0.01; done",
			timeout: 100 * time.Millisecond,
			want:    "stop /bin/sh: still running 100ms after SIGTERM, killed",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p, err := proc.Start(exec.Command("/bin/sh", "-c", tt.script))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(p.Kill)
			awaitLine(t, p, "ready")
			got := ""
			if err := p.Stop(tt.timeout); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestKillEndsTheGroup kills a shell and sees that its child is gone too.
func TestKillEndsTheGroup(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := exec.Command("/bin/sh", "-c", "sleep 600 & echo ready; wait")
	cmd.ExtraFiles = []*os.File{w}
	p, err := proc.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	awaitLine(t, p, "ready")
	p.Kill()
	if exit, ok := errors.AsType[*exec.ExitError](p.Wait()); !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("got %v, want the end by SIGKILL", p.Wait())
	}
	awaitEOF(t, r)
}

func TestStartOfNothing(t *testing.T) {
	if _, err := proc.Start(exec.Command("/nonexistent/program")); err == nil {
		t.Error("started a program that does not exist")
	}
}

func awaitLine(t *testing.T, p *proc.Process, line string) {
	t.Helper()
	select {
	case <-p.Log().Seen(line):
	case <-p.Done():
		t.Fatalf("ended before it said %q: %v\n%s", line, p.Wait(), p.Log().Tail(20))
	case <-time.After(timeout):
		t.Fatalf("did not say %q: %s", line, p.Log().Tail(20))
	}
}

// awaitEOF waits until nobody holds the other end of the pipe r: the children
// that inherited it are gone.
func awaitEOF(t *testing.T, r *os.File) {
	t.Helper()
	if err := r.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("read the pipe that a child holds: got %v, want EOF because it is gone", err)
	}
}
