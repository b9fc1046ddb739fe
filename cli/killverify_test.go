package cli

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/sinks/filesink/manifest"
	"github.com/docket-export/docket/sinks/filesink/verify"
)

// TestKillVerify kills docket at random moments, and wants what it has told the other
// sink of an export to be true of it at any of them: nothing is told before it is on
// disk. Then the newest file that was told of goes, with all behind it, their lines and
// the position, which is found out.
func TestKillVerify(t *testing.T) {
	t.Parallel()
	kills, dir := onceIfShort(*kills), t.TempDir()
	c := newCrashes(t, "SIGKILL beside verify", dir, `apiVersion: docket.dev/v1alpha1
kind: Exporter
sources:
- name: local
  unix: {path: DIR/docket.sock}
queue: {directory: DIR/queue, maxBytes: 64Mi}
sinks:
- name: compliance
  batch: {maxWait: 5ms}
  file: {directory: DIR/export, rotate: {maxBytes: 16Ki}}
- name: siem
  batch: {maxWait: 5ms}
  when: 'has(record.eventType)'
  file: {directory: DIR/siem, rotate: {maxBytes: 0, maxAge: 0s}}
admin: {address: "ADMIN"}
`)
	export := filepath.Join(dir, "export")
	prove := func() verify.Report {
		t.Helper()
		list := []verify.Checkpoint{}
		if f, err := os.Open(filepath.Join(dir, "siem/decisions-active.ndjson")); err == nil { // none is told of yet
			defer f.Close()
			if list, err = verify.ReadCheckpoints(f, "siem"); err != nil {
				t.Fatal(err)
			}
		}
		r, err := verify.Run(t.Context(), export, verify.Options{Checkpoints: list})
		if err != nil {
			t.Fatal(err)
		}
		if want := len(list) > 0; r.Break != nil || (r.Verdict() == verify.Proven) != want {
			t.Fatalf("%d checkpoints: got %s, %+v, want proven %t", len(list), r.Verdict(), r.Break, want)
		}
		return r
	}
	docket := startDocket(t, dir)
	eventually(t, "a checkpoint", func() bool { return len(exportedNow(t, filepath.Join(dir, "siem"))) > 0 })
	kill(t, docket)
	for n := range kills {
		c.life(func(docket *exec.Cmd, _ load) { kill(t, docket) })
		if _, err := os.Stat(export); err == nil { // otherwise docket was killed before it made one
			prove()
		}
		c.progress(n+1, kills)
	}
	c.finish(kills)
	r := prove()
	if r.Proven().Seq == 0 || r.Proven().Seq > r.End.Seq {
		t.Fatalf("got a proof up to %+v of %+v, want one", r.Proven(), r.End)
	}
	for _, suffix := range []string{"ndjson", "position"} {
		if err := os.Remove(filepath.Join(export, "decisions-active."+suffix)); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(export, manifest.FileName)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(strings.TrimSuffix(string(text), "\n"), "\n")
	told := 0 // lines: a file that was finished at the end is told of after the next start
	for _, anchor := range r.Anchors {
		told = max(told, int(anchor.Line))
	}
	for _, line := range lines[told-1:] {
		cut, err := manifest.Decode([]byte(strings.TrimSuffix(line, "\n")))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(export, cut.Entry.Name)); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, path, strings.Join(lines[:told-1], ""))
	for want, args := range map[int][]string{
		3:                  nil,
		command.ExitFailed: {"--checkpoints", filepath.Join(dir, "siem/decisions-active.ndjson")},
	} {
		out, err := exec.Command(*program, append([]string{"verify", export}, args...)...).CombinedOutput()
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != want {
			t.Errorf("cut, %q: got %v, want exit code %d:\n%s", args, err, want, out)
		}
	}
}
