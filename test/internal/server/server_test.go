package server_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-export/docket/test/internal/server"
)

// TestLife kills a server and stops it, and starts it again each time: it writes to
// the same log, and is ready only when it says so.
func TestLife(t *testing.T) {
	dir := t.TempDir()
	ready := filepath.Join(dir, "ready")
	s := &server.Server{
		Name:    "a shell",
		Program: "/bin/sh",
		Args:    []string{"-c", `trap 'echo stopped; exit 0' TERM; echo out $WORD; echo err >&2; touch ` + ready + `; while :; do sleep 0.01; done`},
		Env:     []string{"WORD=of the environment"},
		Log:     filepath.Join(dir, "log"),
		Ready: func() error {
			_, err := os.Stat(ready)
			return err
		},
	}
	s.Start(t)
	s.Kill()
	if err := os.Remove(ready); err != nil {
		t.Fatal(err)
	}
	s.Restart()
	if _, err := os.Stat(ready); errors.Is(err, os.ErrNotExist) {
		t.Error("it was not waited for")
	}
	s.Stop()
	s.Stop() // it has ended, and stays so
	text, err := os.ReadFile(s.Log)
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Repeat("out of the environment\nerr\n", 2) + "stopped\n"; string(text) != want {
		t.Errorf("the log is %q, want %q", text, want)
	}
}
