package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/exporter/deadletter"
	"github.com/docket-export/docket/internal/testcli"
)

// TestPoison: of a batch of 500 the one record that the receiver will never take is
// set aside with the receiver's words; the others arrive; and once the receiver
// takes it, the operator sends it again.
func TestPoison(t *testing.T) {
	const total = 500
	dir := t.TempDir()
	admin, err := testcli.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	siem := newReceiver(t)
	siem.set(func() { siem.poison = []byte(`{"n":123}`) })
	config := filepath.Join(dir, "docket.yaml")
	writeFile(t, config, strings.NewReplacer("ADMIN", admin, "DIR", dir, "SIEM", siem.server.URL).Replace(`apiVersion: docket.dev/v1alpha1
kind: Exporter
sources:
- name: engine
  unix: {path: DIR/docket.sock}
queue: {directory: DIR/queue}
sinks:
- {name: siem, batch: {maxRecords: 500, maxWait: 1h}, http: {url: "SIEM/"}}
admin: {address: "ADMIN"}
`))
	startDocket(t, dir)
	if err := waitReady(t, admin); err != nil {
		t.Fatal(err)
	}
	var lines bytes.Buffer
	for n := range total {
		fmt.Fprintf(&lines, "{\"n\":%d}\n", n)
	}
	sendAll(t, filepath.Join(dir, "docket.sock"), &lines)
	settled := func(want exporter.SinkLedger) func(exporter.Status) bool {
		return func(s exporter.Status) bool { return s.Ledger.Sinks["siem"] == want }
	}
	waitStatus(t, admin, settled(exporter.SinkLedger{Delivered: total - 1, DeadLettered: 1}))

	var letters []deadletter.Summary
	if err := json.Unmarshal(deadLetters(t, "ls", "-f", config, "--sink", "siem", "-o", "json"), &letters); err != nil {
		t.Fatal(err)
	}
	if len(letters) != 1 || letters[0].Status != "400" || letters[0].Answer != siem.refusal() || !strings.HasSuffix(letters[0].ID, "-124") {
		t.Fatalf("dead letters: got %+v, want record 124 with %q", letters, siem.refusal())
	}
	t.Logf("dead letters:\n%s", deadLetters(t, "ls", "-f", config, "--sink", "siem"))

	siem.set(func() { siem.poison = nil })
	t.Logf("%s", deadLetters(t, "redrive", "-f", config, "--sink", "siem", letters[0].ID))
	waitStatus(t, admin, settled(exporter.SinkLedger{Delivered: total}))
	if got := siem.count(); got != total {
		t.Errorf("the receiver has %d different records, want %d", got, total)
	}
}

// deadLetters runs docket deadletter and returns what it says.
func deadLetters(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("docket", append([]string{"deadletter"}, args...)...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("docket deadletter %v: %v\n%s", args, err, said.String())
	}
	return out
}
