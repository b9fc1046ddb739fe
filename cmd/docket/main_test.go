package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"docket": main})
}

// TestScripts runs the program as a person would. Each script has in $ADMIN an
// address that nobody listens at.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "../../testdata/scripts",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			admin, err := freeAddress()
			env.Setenv("ADMIN", admin)
			return err
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":  scriptExits,
			"expand": scriptExpand,
			"ready":  scriptReady,
		},
	})
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// scriptExits is "exits CODE PROGRAM [ARG...]": exec, and the exact exit code.
func scriptExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARG...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("got exit code %d, want %d\n%s", got, want, ts.ReadFile("stderr"))
	}
}

// scriptExpand is "expand FILE": it replaces $NAME in a file.
func scriptExpand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: expand FILE")
	}
	text := os.Expand(ts.ReadFile(args[0]), ts.Getenv)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o666))
}

// scriptReady is "ready": it waits until the exporter at $ADMIN is ready.
func scriptReady(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: ready")
	}
	ts.Check(waitReady(ts.Getenv("ADMIN")))
}

// waitReady polls, because a process has no other way to say that it is ready.
func waitReady(admin string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		res, err := http.Get("http://" + admin + "/readyz")
		if err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return nil
			}
			err = errors.New(res.Status)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("got not ready within 20s, last: %w", err)
		}
	}
}

// TestSecondSignal: the first signal drains for as long as a producer is
// connected, the second one ends the process.
func TestSecondSignal(t *testing.T) {
	admin, err := freeAddress()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	writeFile(t, "docket.yaml", strings.ReplaceAll(`apiVersion: docket.dev/v1alpha1
kind: Exporter
sources:
- name: local
  unix: {path: docket.sock}
queue: {directory: queue}
sinks:
- name: export
  file: {directory: export}
admin: {address: "ADMIN"}
shutdown: {drainTimeout: 1h}
`, "ADMIN", admin))
	cmd := exec.Command("docket", "run", "-f", "docket.yaml")
	log, err := os.Create("log")
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill() // does nothing once it has ended
	if err := waitReady(admin); err != nil {
		t.Fatal(err)
	}
	producer, err := net.Dial("unix", "docket.sock")
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()

	interrupt(t, cmd)
	waitNotReady(t, admin)
	interrupt(t, cmd)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-ended:
		if got := cmd.ProcessState.ExitCode(); got != exitFailed {
			t.Errorf("got exit code %d after the second signal, want %d", got, exitFailed)
		}
	case <-time.After(10 * time.Second):
		t.Error("got a process that goes on after the second signal, want it ended at once")
	}
}

func interrupt(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
}

// waitNotReady waits until the exporter has taken a signal.
func waitNotReady(t *testing.T, admin string) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		res, err := http.Get("http://" + admin + "/readyz")
		if err != nil {
			t.Fatalf("got %v after one signal, want a process that drains", err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("got ready for 10s after a signal, want not ready")
		}
	}
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
