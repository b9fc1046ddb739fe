package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/internal/testcli"
)

// TestReadiness: docket is ready once producers can connect, whatever becomes of the
// sources that read files; beside Gatekeeper its webhook would not be in service
// otherwise until the first export.
func TestReadiness(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	admin, err := testcli.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Chdir(dir)
	writeFile(t, "topics", "a file where the directory of the export should be")
	writeFile(t, "docket.yaml", fmt.Sprintf(`apiVersion: docket.dev/v1alpha1
kind: Exporter
sources:
- name: socket
  unix: {path: docket.sock}
- name: engine
  opa: {address: %[1]q}
- name: nothing-yet
  gatekeeper: {path: %[3]s/violations/topics}
- name: foreign
  gatekeeper: {path: %[3]s/topics}
- name: no-log-yet
  tail: {path: %[3]s/logs/engine.log, format: json}
queue: {directory: queue}
sinks:
- name: export
  file: {directory: export}
admin: {address: %[2]q}
`, taken.Addr().String(), admin, dir))
	p := startProcess(t, "run", "-f", "docket.yaml")
	var got string
	eventually(t, "an exporter that lacks one listener alone", func() bool {
		res, err := http.Get("http://" + admin + "/readyz")
		if err != nil {
			return false
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		got = string(text)
		return err == nil && res.StatusCode == http.StatusServiceUnavailable && !strings.Contains(got, "socket") && strings.Contains(got, "in use")
	})
	if lines := strings.Split(strings.TrimSpace(got), "\n"); len(lines) != 1 || !strings.HasPrefix(got, "source engine: ") {
		t.Errorf("got /readyz %q, want the source engine alone", got)
	}

	taken.Close()
	if err := waitReady(t, admin); err != nil {
		t.Fatalf("%v\n%s", err, p.stderr())
	}
	notActive := map[string]bool{}
	for _, s := range statusOf(t, admin).Sources {
		if s.State != exporter.Active {
			notActive[s.Name] = true
		}
	}
	if !notActive["foreign"] || notActive["socket"] || notActive["engine"] {
		t.Errorf("got not Active %v, want foreign, and neither socket nor engine", notActive)
	}
}

func statusOf(t *testing.T, admin string) (s exporter.Status) {
	t.Helper()
	res, err := http.Get("http://" + admin + "/status")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&s); err != nil {
		t.Fatal(err)
	}
	return s
}
