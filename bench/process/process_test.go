package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/bench/host"
)

// A server says its address, is told things and says more.
func TestServer(t *testing.T) {
	s, err := StartServer(t.Context(), "sh", "-c", "echo 127.0.0.1:7; read line; echo got $line; read line; echo bye >&2")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Kill()
	if s.Address != "127.0.0.1:7" {
		t.Errorf("address: got %q", s.Address)
	}
	if _, err := io.WriteString(s.Stdin, "this\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := s.ReadLine(); line != "got this" || err != nil {
		t.Errorf("got %q (%v), want \"got this\"", line, err)
	}
	if used, err := s.CPUTime(); used <= 0 || err != nil {
		t.Errorf("processor time: got %v (%v)", used, err)
	}
	if mb, err := s.Memory("VmRSS"); mb <= 0 || err != nil {
		t.Errorf("memory: got %v MB (%v)", mb, err)
	}
	if err := s.Stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if line, err := s.ReadLine(); err == nil {
		t.Errorf("the end: got %q", line)
	}
	if err := s.LastWords(); err == nil || err.Error() != "sh said: bye" {
		t.Errorf("last words: got %v", err)
	}
}

func TestServerThatDoesNotStart(t *testing.T) {
	_, err := StartServer(t.Context(), "sh", "-c", "echo no room >&2")
	for _, want := range []string{"it has ended without a word", "sh said: no room"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q in it", err, want)
		}
	}
}

// A process has the environment that it was given, and ends when it is killed.
func TestStart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "said")
	p, err := Start(t.Context(), []string{"SOME=thing"}, "sh", "-c", `echo $SOME > "$0"; exec sleep 60`, file)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = host.Poll(ctx, time.Millisecond, func() (bool, error) {
		said, err := os.ReadFile(file)
		return string(said) == "thing\n", ignoreMissing(err)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.LastWords(); err != nil {
		t.Errorf("last words: got %v", err)
	}
	if used, err := p.CPUTime(); err == nil {
		t.Errorf("it has not ended: it has used %v", used)
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
		"trap 'echo no >&2; exit 3' TERM": "sh: exit status 3: no",
	} {
		s, err := StartServer(t.Context(), "sh", "-c", script+"; echo ready; while :; do sleep 0.01; done")
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(s.Stop()); got != want {
			t.Errorf("%s: got error %s, want %s", script, got, want)
		}
	}
}

func TestOutput(t *testing.T) {
	dir := t.TempDir()
	if out, err := Output(t.Context(), dir, "sh", "-c", "pwd"); string(out) != dir+"\n" || err != nil {
		t.Errorf("got %q (%v), want %s", out, err, dir)
	}
	if _, err := Output(t.Context(), "", "sh", "-c", "echo why >&2; exit 2"); err == nil || err.Error() != "sh -c: exit status 2: why" {
		t.Errorf("a failure: got %v", err)
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
	if err := Answer(context.Background(), os.Args[2:], os.Stdout, numbers.add); err != nil {
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
	var sum int
	if err := Call(t.Context(), self, addCommand, numbers{1, 2}, &sum); err != nil || sum != 3 {
		t.Errorf("got %d (%v), want 3", sum, err)
	}
	if err := Call(t.Context(), self, addCommand, numbers{1, -2}, &sum); err == nil || !strings.Contains(err.Error(), "it is negative") {
		t.Errorf("a failure: got error %v", err)
	}
	if err := Call(t.Context(), self, addCommand, "text", &sum); err == nil {
		t.Error("an argument of another form: got no error")
	}
}
