package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/bench/trial"
)

// What a process has said is told when the measurement fails.
func TestProcess(t *testing.T) {
	err := trial.Run(t.Context(), func(tr *trial.T) {
		p := Start(tr, nil, "sh", "-c", "echo bye >&2; exec sleep 60")
		tr.Poll("for its words", time.Millisecond, time.Minute, func() bool {
			said, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.cmd.Process.Pid))
			return err == nil && strings.HasPrefix(string(said), "sleep")
		})
		if used, mb := p.CPUTime(), p.Memory("VmRSS"); used <= 0 || mb <= 0 {
			t.Errorf("got a processor time of %v and %v MB", used, mb)
		}
		if used := p.CPUOf(func() {}); used < 0 {
			t.Errorf("at rest: got a processor time of %v", used)
		}
		trial.Check(errors.New("it is too slow"))
	})
	for _, want := range []string{"it is too slow", "sh said: bye"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q in it", err, want)
		}
	}
}

// A process has the environment that it was given, and ends with the measurement.
func TestStart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "said")
	var p *Process
	err := trial.Run(t.Context(), func(tr *trial.T) {
		p = Start(tr, []string{"SOME=thing"}, "sh", "-c", `echo about >&2; echo $SOME > "$0"; exec sleep 60`, file)
		tr.Poll("for "+file, time.Millisecond, time.Minute, func() bool {
			said, err := os.ReadFile(file)
			trial.Check(ignoreMissing(err))
			return string(said) == "thing\n"
		})
	})
	if err != nil {
		t.Errorf("got error %v: what a process says matters when the measurement has failed", err)
	}
	if err := trial.Run(t.Context(), func(*trial.T) { p.CPUTime() }); err == nil {
		t.Error("it has not ended")
	}
}

func TestAwaitSocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := trial.Run(t.Context(), func(tr *trial.T) { AwaitSocket(tr, socket, time.Millisecond) }); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := trial.Run(ctx, func(tr *trial.T) { AwaitSocket(tr, socket+"2", time.Millisecond) }); err == nil {
		t.Error("there is none: got no error")
	}
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func TestStop(t *testing.T) {
	for script, want := range map[string]string{
		"trap 'exit 0' TERM":              "<nil>",
		"trap 'echo no >&2; exit 3' TERM": "sh: exit status 3\nsh said: no",
	} {
		ready := filepath.Join(t.TempDir(), "ready")
		err := trial.Run(t.Context(), func(tr *trial.T) {
			p := Start(tr, nil, "sh", "-c", script+`; : > "$0"; while :; do sleep 0.01; done`, ready)
			tr.Poll("for it to be ready", time.Millisecond, time.Minute, func() bool {
				_, err := os.Stat(ready)
				return err == nil
			})
			p.Stop()
		})
		if got := fmt.Sprint(err); got != want {
			t.Errorf("%s: got error %s, want %s", script, got, want)
		}
	}
}

func TestOutput(t *testing.T) {
	dir := t.TempDir()
	err := trial.Run(t.Context(), func(tr *trial.T) {
		if out := Output(tr, dir, "sh", "-c", "pwd; echo $GOWORK"); out != dir+"\noff" {
			t.Errorf("got %q, want %s and no workspace", out, dir)
		}
		Output(tr, "", "sh", "-c", "echo why >&2; exit 2")
	})
	if err == nil || err.Error() != "sh -c: exit status 2: why" {
		t.Errorf("a failure: got %v", err)
	}
}

// A program that is interrupted is asked to end, so that it can end what it started.
func TestOutputAsksToEnd(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- trial.Run(ctx, func(tr *trial.T) {
			Output(tr, dir, "sh", "-c", `trap 'echo ended >said; exit 1' TERM; : >ready; while :; do :; done`)
		})
	}()
	err := trial.Run(t.Context(), func(tr *trial.T) {
		tr.Poll("for the program", time.Millisecond, time.Minute, func() bool {
			_, err := os.Stat(filepath.Join(dir, "ready"))
			return err == nil
		})
	})
	cancel()
	if err := errors.Join(err, <-ended); err == nil {
		t.Error("got no error, want one of a program that was interrupted")
	}
	if said, err := os.ReadFile(filepath.Join(dir, "said")); string(said) != "ended\n" {
		t.Errorf("got %q and error %v, want that the program was asked to end", said, err)
	}
}

func TestTimeLeft(t *testing.T) {
	for _, test := range []struct {
		done, all int
		want      string
	}{{0, 4, ""}, {1, 4, ", about 30s left"}, {3, 4, ", about 3s left"}} {
		if got := TimeLeft(10*time.Second, test.done, test.all); got != test.want {
			t.Errorf("%d of %d: got %q, want %q", test.done, test.all, got, test.want)
		}
	}
}

// addCommand is a part of this program that runs in a process of its own.
const addCommand = "add"

type numbers struct{ A, B int }

func (n numbers) add(context.Context) (int, error) {
	if n.B < 0 {
		return 0, errors.New("it is negative")
	}
	return n.A + n.B, nil
}

func TestMain(m *testing.M) {
	if len(os.Args) < 2 || os.Args[1] != addCommand {
		os.Exit(m.Run())
	}
	if err := Answer(numbers.add)(context.Background(), os.Args[2:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func TestCall(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		in   any
		want string // in the error; empty: none
	}{{numbers{1, 2}, ""}, {numbers{1, -2}, "it is negative"}, {"text", "cannot unmarshal"}} {
		sum := 0
		err := trial.Run(t.Context(), func(tr *trial.T) { sum = Call[int](tr, self, addCommand, tt.in) })
		switch {
		case tt.want == "" && (err != nil || sum != 3):
			t.Errorf("%v: got %d (%v), want 3", tt.in, sum, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%v: got error %v, want %q in it", tt.in, err, tt.want)
		}
	}
}
