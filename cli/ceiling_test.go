package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-export/docket/cli/builtin"
	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/exporter"
)

// ceilingLimit is the container that docket with its defaults and three sinks lives in.
const ceilingLimit = 64 << 20

const ceilingConfig = `apiVersion: docket.dev/v1alpha1
kind: Exporter
sources:
- name: local
  unix: {path: DIR/docket.sock, mode: "0666"}
SOURCES
queue: {directory: DIR/queue, maxBytes: 4Gi, minFreeBytes: 0}
sinks:
- name: bus
  kafka: {brokers: ["KAFKA"], topic: decisions}
- name: siem
  http: {url: "SIEM"}
- name: export
  file: {directory: DIR/export}
admin: {address: "ADMIN"}
LIMITS
`

// TestMemoryOfTheDefaults: with its defaults and three sinks docket fits a container of
// 64 MiB, and check says so.
func TestMemoryOfTheDefaults(t *testing.T) {
	file := filepath.Join(t.TempDir(), "docket.yaml")
	writeFile(t, file, strings.NewReplacer("SOURCES", "", "LIMITS", "", "DIR", "/var/lib/docket",
		"ADMIN", "127.0.0.1:9464", "KAFKA", "localhost:9092", "SIEM", "http://localhost/").Replace(ceilingConfig))
	cfg, err := command.LoadConfig(builtin.Kinds(), file, "")
	if err != nil {
		t.Fatal(err)
	}
	text, _, _ := docket(t, "check", "-f", file)
	if got := exporter.MemoryCeiling(cfg.Memory()); got > ceilingLimit {
		t.Errorf("got %s, want at most 64Mi", text)
	}
	for _, want := range []string{"program ", "queue ", "producers ", "refused lines ", "admin ", "source local ", "long lines ", "sink bus ", "sink siem ", "sink export "} {
		if !strings.Contains(text, want) {
			t.Errorf("got %s, want %q in it", text, want)
		}
	}
}
