package cli

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/internal/testcli"
)

// TestSendAcrossARestart: `docket send` of 100,000 lines, while the exporter is
// killed and started again, ends with exit 0 and no line twice in the export.
func TestSendAcrossARestart(t *testing.T) {
	t.Parallel()
	const lines = 100_000
	dir := t.TempDir()
	admin, err := testcli.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "docket.yaml"), strings.NewReplacer("ADMIN", admin, "DIR", dir).Replace(`apiVersion: docket.dev/v1alpha1
kind: Exporter
sources: [{name: local, unix: {path: DIR/docket.sock}}]
queue: {directory: DIR/queue}
sinks: [{name: export, file: {directory: DIR/export}}]
admin: {address: "ADMIN"}
`))
	var want []string
	for n := range lines {
		want = append(want, fmt.Sprintf(`{"n":%d,"resourceName":"cart-%d"}`, n, n%977))
	}
	writeFile(t, filepath.Join(dir, "decisions.ndjson"), strings.Join(want, "\n")+"\n")

	first := startDocket(t, dir)
	if err := waitReady(t, admin); err != nil {
		t.Fatal(err)
	}
	send := exec.Command("docket", "send", "--socket", filepath.Join(dir, "docket.sock"), filepath.Join(dir, "decisions.ndjson"))
	var output bytes.Buffer
	send.Stderr, send.Stdout = &output, &output
	if err := send.Start(); err != nil {
		t.Fatal(err)
	}
	waitStatus(t, admin, func(s exporter.Status) bool { return s.Ledger.Stored > 0 })
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	first.Wait() // says that it was killed
	second := startDocket(t, dir)
	if err := send.Wait(); err != nil {
		t.Fatalf("docket send: %v\n%s", err, output.Bytes())
	}
	waitDelivered(t, admin, lines)
	interrupt(t, second)
	if err := second.Wait(); err != nil {
		t.Errorf("docket run: %v", err)
	}
	if got := exportedLines(t, filepath.Join(dir, "export")); !slices.Equal(got, want) {
		compareLines(t, "docket send", got, want)
	}
	t.Logf("%s", bytes.TrimSpace(output.Bytes()))
}
