package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/internal/testcli"
)

// TestGatekeeperSlotRuns: docket does the work of Gatekeeper's demo reader, with nothing
// but records on its standard output, and leaves Gatekeeper's directory alone.
func TestGatekeeperSlotRuns(t *testing.T) {
	const name = "2026-11-21T08_13_00Z.log"
	for title, test := range map[string]struct {
		remove string
		left   []string // in Gatekeeper's directory
	}{
		"audit":     {"", []string{name}},
		"admission": {"true", nil},
	} {
		t.Run(title, func(t *testing.T) {
			samples, err := filepath.Glob("../testdata/samples/gatekeeper/disk-export-audit-channel-*.log")
			if err != nil || len(samples) != 1 {
				t.Fatalf("got the samples %v, error %v, want one", samples, err)
			}
			want := readFile(t, samples[0])
			root := setSlot(t, test.remove)
			channel := filepath.Join(root, "audit-channel")
			if err := os.Mkdir(channel, 0o777); err != nil {
				t.Fatal(err)
			}
			writeFile(t, filepath.Join(channel, name), want)

			p, stdout := startSlot(t)
			eventually(t, "a run record on standard output", func() bool { return strings.Contains(stdout(), "docket.audit.run") })
			eventually(t, "the file deleted or left", func() bool { return slices.Equal(filesBelow(t, root), test.left) })
			p.interrupt()
			if got := p.wait(); got != command.ExitOK {
				t.Errorf("got exit code %d, want %d:\n%s", got, command.ExitOK, p.stderr())
			}
			got, run, _ := strings.Cut(stdout(), `{"eventType":"docket.audit.run"`)
			if got != want || strings.Count(run, "\n") != 1 {
				t.Errorf("got on standard output\n%s\nwant the file and one run record:\n%s", stdout(), want)
			}
			if got := filesBelow(t, root); !slices.Equal(got, test.left) {
				t.Errorf("got the files %v in Gatekeeper's directory, want %v", got, test.left)
			}
			if _, err := os.Stat("violations/docket-data/queue"); err != nil {
				t.Errorf("got no queue beside Gatekeeper's directory: %v", err)
			}
		})
	}
}

// setSlot makes the environment one of a container beside Gatekeeper, in a directory of
// its own.
func setSlot(t *testing.T, remove string) (root string) {
	t.Helper()
	t.Chdir(t.TempDir())
	root = filepath.Join("violations", "topics")
	if err := os.MkdirAll(root, 0o777); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ROOT_PATH", root)
	t.Setenv("DELETE_AFTER_READ", remove)
	return root
}

// startSlot runs the configuration of the environment, but for the address of its admin
// endpoint: another docket on this machine may have that.
func startSlot(t *testing.T) (p *process, stdout func() string) {
	t.Helper()
	admin, err := testcli.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	printed := newProcess(t, "config")
	stdout = catchStdout(t, printed)
	printed.start()
	if got := printed.wait(); got != command.ExitOK {
		t.Fatalf("got exit code %d of config, want %d:\n%s", got, command.ExitOK, printed.stderr())
	}
	writeFile(t, "docket.yaml", strings.ReplaceAll(stdout(), "127.0.0.1:9464", admin))
	p = newProcess(t, "run", "-f", "docket.yaml")
	stdout = catchStdout(t, p)
	p.start()
	return p, stdout
}

// catchStdout returns what p has written so far, once it is started.
func catchStdout(t *testing.T, p *process) (stdout func() string) {
	t.Helper()
	out, err := os.CreateTemp(".", "stdout")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close() })
	p.cmd.Stdout = out
	return func() string { return readFile(t, out.Name()) }
}

// filesBelow returns the names of the files below dir.
func filesBelow(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, d.Name())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
