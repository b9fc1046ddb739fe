package cli

import (
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNoCore: a docket that redacts leaves no core, whatever it ends with, and what it
// prints then holds nothing of a line.
func TestNoCore(t *testing.T) {
	allowCores(t)
	s := newEverySource(t, canaryRules)
	s.feedUnix("unix", 0, `{"secret":"`+canary+`"}`+"\n")
	p := s.process()
	if err := p.cmd.Process.Signal(syscall.SIGABRT); err != nil {
		t.Fatal(err)
	}
	p.wait()
	s.running = false
	status := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !status.Signaled() || status.CoreDump() {
		t.Errorf("got status %v, core %v, want an end by a signal without one", status, status.CoreDump())
	}
	if said := p.stderr(); !strings.Contains(said, "goroutine ") || strings.Contains(said, canary) {
		t.Errorf("got %q, want goroutines and nothing of a line", said)
	}
	s.wantNoCanary("after an abort")
}

// allowCores lets processes that are started from now on leave cores.
func allowCores(t *testing.T) {
	t.Helper()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &limit); err != nil {
		t.Fatal(err)
	}
	limit.Cur = limit.Max
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &limit); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOTRACEBACK", "crash")
}
