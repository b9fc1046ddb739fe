package cli

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/exporter"
)

// planting puts a link at path and checks at the end that nothing has followed it.
func planting(t *testing.T, path string, toDir bool) {
	t.Helper()
	const canary = "not docket's"
	outside := t.TempDir()
	file := filepath.Join(outside, "canary")
	writeFile(t, file, canary)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	target := file
	if toDir {
		target = outside
	}
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if got := readFile(t, file); got != canary {
			t.Errorf("the file that %s leads to has %q now", path, got)
		}
		if names, err := os.ReadDir(outside); err != nil || len(names) != 1 {
			t.Errorf("beside the file that %s leads to: %v, error %v", path, names, err)
		}
	})
}

// Where docket cannot go on without the name that somebody has planted, it does not
// start, and says which it is.
func TestPlantedLinkEndsTheStart(t *testing.T) {
	for _, test := range []struct {
		path  string
		toDir bool
		args  []string
		code  int
	}{
		{"queue/cursors", false, []string{"run", "-f", "docket.yaml"}, command.ExitFailed},
		{"data/export", true, []string{"run", "--data", "data"}, command.ExitUsage},
	} {
		t.Run(test.path, func(t *testing.T) {
			testConfig(t)
			planting(t, test.path, test.toDir)
			p := startProcess(t, test.args...)
			if got, want := p.wait(), test.path+" is a symbolic link"; got != test.code || !strings.Contains(p.stderr(), want) {
				t.Errorf("got exit code %d and %q, want %d and %q", got, p.stderr(), test.code, want)
			}
		})
	}
}

// A link in the place of what one part keeps stops that part alone: records are taken,
// and the log names the link.
func TestPlantedLinkStopsItsPartAlone(t *testing.T) {
	config, admin := testConfig(t)
	writeFile(t, "followed.log", "{}\n")
	text := strings.Replace(readFile(t, config), "sources:\n", "sources:\n- name: followed\n  tail: {path: followed.log, format: json}\n", 1)
	writeFile(t, config, strings.Replace(text, "drainTimeout: 1h", "drainTimeout: 1s", 1))
	planting(t, "queue/refused", true)
	planting(t, "queue/sources", true)
	planting(t, "queue/admin.sock", false)
	p := startProcess(t, "run", "-f", config)
	status := waitStatus(t, admin, func(s exporter.Status) bool { return s.Sources[0].State == exporter.Error })
	if got, want := status.Sources[0].Reason, "queue/sources is a symbolic link"; !strings.Contains(got, want) {
		t.Errorf("source: got reason %q, want %q in it", got, want)
	}
	producer := dialSocket(t)
	io.WriteString(producer, "no object, and not for others\n{}\n")
	producer.Close()
	status = waitStatus(t, admin, func(s exporter.Status) bool { return s.Ledger.Stored == 1 && s.Ledger.Refused["InvalidJSON"] == 1 })
	if got, want := status.Queue.Reason, "queue/refused is a symbolic link"; status.Queue.State != exporter.Degraded || !strings.Contains(got, want) {
		t.Errorf("queue: got state %s, reason %q, want %s and %q in it", status.Queue.State, got, exporter.Degraded, want)
	}
	p.interrupt()
	p.wait()
	for _, want := range []string{"queue/refused is a symbolic link", "queue/sources is a symbolic link", "no admin socket"} {
		if !strings.Contains(p.stderr(), want) {
			t.Errorf("got log %q, want %q in it", p.stderr(), want)
		}
	}
}
