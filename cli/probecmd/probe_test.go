package probecmd

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/exporter/adminclient"
)

// Something else in the place of the file does not hold up a probe, nor fill its memory.
func TestFileThatHasNoEnd(t *testing.T) {
	dir := t.TempDir()
	pipe, large := filepath.Join(dir, "pipe"), filepath.Join(dir, "large")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, 1<<30); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{pipe: "is not a regular file", large: "is larger than"} {
		for _, queue := range []string{"", filepath.Join(dir, "queue")} {
			err := probe(t, "live", "-f", file, "--queue="+queue)
			_, misconfigured := errors.AsType[*command.ConfigError](err)
			switch {
			case queue == "" && (!misconfigured || !strings.Contains(err.Error(), want)):
				t.Errorf("%s: got %v, want that it %s", filepath.Base(file), err, want)
			case queue != "" && !errors.Is(err, adminclient.ErrNotRunning):
				t.Errorf("%s: got %v, want that no docket works on the queue of --queue", filepath.Base(file), err)
			}
		}
	}
}

// probe is an error of docket probe.
func probe(t *testing.T, args ...string) error {
	cmd := New(exporter.Kinds{})
	cmd.SetArgs(args)
	cmd.SetOut(io.Discard)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	return cmd.ExecuteContext(t.Context())
}
