package hostcheck

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/cli/builtin"
	"github.com/docket-export/docket/exporter"
)

// What others may write to or read is named with its mode and what to do.
func TestPermissionWarnings(t *testing.T) {
	tests := map[string]struct {
		queue, export, socket os.FileMode // of directories
		token                 os.FileMode
		mounted               bool // the token is in a Secret's volume
		want                  []string
	}{
		"own":              {0o700, 0o750, 0o755, 0o600, false, nil},
		"group reads":      {0o750, 0o750, 0o755, 0o640, false, nil},
		"Kubernetes":       {0o700, 0o700, 0o755, 0o644, true, nil},
		"writable mount":   {0o700, 0o700, 0o755, 0o666, true, []string{"sinks[1].http.bearerTokenFile: DIR/token (mode 0666): group or others may replace the secret: chmod go-w DIR/token"}},
		"readable secret":  {0o700, 0o700, 0o755, 0o644, false, []string{"sinks[1].http.bearerTokenFile: DIR/token (mode 0644): everybody on this machine may read the secret: chmod o-r DIR/token"}},
		"group's secret":   {0o700, 0o700, 0o755, 0o660, false, []string{"sinks[1].http.bearerTokenFile: DIR/token (mode 0660): group or others may replace the secret: chmod go-w DIR/token"}},
		"queue of a group": {0o770, 0o700, 0o755, 0o600, false, []string{"queue.directory: DIR/queue has mode 0770, so its group may remove or replace files of the queue: chmod go-w DIR/queue, "}},
		"sticky":           {os.ModeSticky | 0o777, 0o700, 0o755, 0o600, false, []string{"queue.directory: DIR/queue has mode 1777, so everybody may"}},
		"export":           {0o700, 0o702, 0o755, 0o600, false, []string{"sinks[0].file.directory: DIR/export has mode 0702, so everybody may"}},
		"socket":           {0o700, 0o700, os.ModeSetgid | 0o775, 0o600, false, []string{"sources[0].unix.path: DIR/run has mode 2775, so its group may replace docket's socket"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			makeDir := func(name string, mode os.FileMode) {
				if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
					t.Fatal(err)
				}
			}
			makeDir("queue", tt.queue)
			makeDir("export", tt.export)
			makeDir("run", tt.socket)
			token := filepath.Join(dir, "token")
			if tt.mounted {
				makeDir("..1", 0o755)
				if err := os.Symlink("..1", filepath.Join(dir, "..data")); err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink("..data/token", token); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(token, []byte("s3cret"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(token, tt.token); err != nil {
				t.Fatal(err)
			}
			text := fmt.Sprintf(`
apiVersion: docket.dev/v1alpha1
kind: Exporter
sources: [{name: webhook, unix: {path: %[1]s/run/docket.sock}}]
queue: {directory: %[1]s/queue, maxBytes: 16Mi}
sinks: [{name: export, file: {directory: %[1]s/export}}, {name: siem, http: {url: "https://127.0.0.1", bearerTokenFile: %[1]s/token}}]
`, dir)
			cfg, problems := exporter.Load([]byte(text), builtin.Kinds())
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			got := slices.DeleteFunc(Warnings(cfg), func(w string) bool { // of the disk that the test runs on
				return strings.Contains(w, "fs)") || strings.HasPrefix(w, "queue.maxBytes")
			})
			if len(got) != len(tt.want) {
				t.Fatalf("got %q, want %q", got, tt.want)
			}
			for i, want := range tt.want {
				if want = strings.ReplaceAll(want, "DIR", dir); !strings.HasPrefix(got[i], want) {
					t.Errorf("got %q, want %q", got[i], want)
				}
			}
		})
	}
}

// The directory of a pod's socket is open to the containers that mount it. Any other that
// everybody may write to is open to this machine.
func TestEmptyDir(t *testing.T) {
	for name, test := range map[string]struct {
		mode     os.FileMode
		mounted  bool
		isVolume bool
	}{
		"emptyDir":                 {os.ModeSetgid | 0o777, true, true},
		"directory of the machine": {os.ModeSetgid | 0o777, false, false},
		"tmpfs at /tmp":            {os.ModeSticky | 0o777, true, false},
		"file system":              {0o777, true, false},
		"own file system":          {0o755, true, false},
	} {
		dir := t.TempDir()
		if err := os.Chmod(dir, test.mode); err != nil {
			t.Fatal(err)
		}
		var at, above unix.Stat_t
		if err := unix.Stat(dir, &at); err != nil {
			t.Fatal(err)
		}
		if above = at; test.mounted {
			above.Dev++
		}
		if got := isVolumeOfAll(at, above); got != test.isVolume {
			t.Errorf("%s: got %t", name, got)
		}
	}
}
