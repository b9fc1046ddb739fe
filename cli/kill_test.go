package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/exporter"
)

// TestKill is promises 1, 2 and 7 on the real program: it is killed at random
// moments under load from four acknowledged producers, and everything that was
// acknowledged is in the file export exactly once, in order, byte for byte.
func TestKill(t *testing.T) {
	t.Parallel()
	kills, dir := onceIfShort(*kills), t.TempDir()
	c := newCrashes(t, "SIGKILL", dir, `apiVersion: docket.dev/v1alpha1
kind: Exporter
sources:
- name: local
  unix: {path: DIR/docket.sock}
queue: {directory: DIR/queue, maxBytes: 64Mi}
sinks:
- name: export
  batch: {maxWait: 5ms}
  file: {directory: DIR/export, rotate: {maxBytes: 256Ki}}
admin: {address: "ADMIN"}
`, filepath.Join(dir, "export"))
	for n := range kills {
		c.life(func(docket *exec.Cmd, _ load) { kill(t, docket) })
		c.checkExports()
		c.progress(n+1, kills)
	}
	c.finish(kills)
}

// kill ends docket without a word, and waits until its files are closed.
func kill(t *testing.T, docket *exec.Cmd) {
	t.Helper()
	if err := docket.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	docket.Wait() // says that it was killed
}

// compareLines says where got first differs from want.
func compareLines(t *testing.T, name string, got, want []string) {
	t.Helper()
	if slices.Equal(got, want) {
		return
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Errorf("producer %s, line %d: got %q, want %q", name, i+1, got[i], want[i])
			return
		}
	}
	t.Errorf("producer %s: got %d lines, want %d", name, len(got), len(want))
}

func startDocket(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	path := filepath.Join(dir, "log")
	log, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(*program, "run", "-f", filepath.Join(dir, "docket.yaml"))
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill() // does nothing once it has ended
		cmd.Wait()         // or it might make another file where the test's directory is removed
		if t.Failed() {
			showLog(t, path)
		}
	})
	return cmd
}

// showLog shows the end of a log, once: many processes may have written it.
func showLog(t *testing.T, path string) {
	t.Helper()
	const most = 64 << 10
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		t.Error(err)
	}
	t.Logf("log of docket:\n%s", text[max(0, len(text)-most):])
	if err := os.Remove(path); err != nil {
		t.Error(err)
	}
}

// waitDelivered waits until the file sink has every one of total records.
func waitDelivered(t *testing.T, admin string, total uint64) exporter.Status {
	t.Helper()
	return waitStatus(t, admin, func(s exporter.Status) bool {
		return s.Ledger.Stored >= total && s.Ledger.Sinks["export"].Pending == 0
	})
}

// waitStatus polls /status until ok is true of it.
func waitStatus(t *testing.T, admin string, ok func(exporter.Status) bool) exporter.Status {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(await.Left(t)); ; <-tick.C {
		var s exporter.Status
		res, err := http.Get("http://" + admin + "/status")
		if err == nil {
			err = json.NewDecoder(res.Body).Decode(&s)
			res.Body.Close()
		}
		if err == nil && ok(s) {
			return s
		}
		if time.Now().After(deadline) {
			t.Fatalf("no time is left to wait for another status: %v, %+v", err, s)
		}
	}
}

// exportedLines returns all lines of a file export in their order, but for those by which
// docket tells how far an export goes.
func exportedLines(t *testing.T, dir string) (lines []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "decisions-*.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files) // finished files by their first seq, then the active one
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		scanner := bufio.NewScanner(bytes.NewReader(content))
		scanner.Buffer(nil, 1<<20)
		for scanner.Scan() {
			if line := scanner.Text(); !isCheckpoint(line) {
				lines = append(lines, line)
			}
		}
		if err := scanner.Err(); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	return lines
}

// isCheckpoint reports whether docket has made a record, about one of its exports.
func isCheckpoint(record string) bool {
	return strings.HasPrefix(record, `{"eventType":"`+decision.ExportCheckpoint+`"`)
}
