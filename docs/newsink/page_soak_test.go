//go:build soak

package newsink

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The program on the page passes the suite of every sink, and delivers a record.
func TestPageIsAProgram(t *testing.T) {
	p := program{dir: t.TempDir()}
	p.write(t)
	p.run(t, 0, "", "go", "vet", "./...")
	p.run(t, 0, "", "go", "test", "./...")
	p.run(t, 0, "", "go", "build", "-o", "docket", ".")
	docket := filepath.Join(p.dir, "docket")

	p.file(t, "docket.yaml", `apiVersion: docket.dev/v1alpha1
kind: Exporter
sources: [{name: local, unix: {path: docket.sock}}]
queue: {directory: queue, minFreeBytes: 0}
sinks: [{name: files, spool: {directory: records}}]
admin: {address: ""}
`)
	p.file(t, "wrong.yaml", `apiVersion: docket.dev/v1alpha1
kind: Exporter
sources: [{name: local, unix: {path: docket.sock}}]
queue: {directory: queue}
sinks: [{name: files, spool: {}}]
`)
	if err := os.Mkdir(filepath.Join(p.dir, "records"), 0o700); err != nil {
		t.Fatal(err)
	}
	if out := p.run(t, 0, "", docket, "check", "-f", "docket.yaml"); !strings.Contains(out, "docket.yaml: ok\n") {
		t.Errorf("check: got %q, want ok", out)
	}
	if out := p.run(t, 2, "", docket, "check", "-f", "wrong.yaml"); !strings.Contains(out, "sinks[0].spool.directory: is required") {
		t.Errorf("check: got %q, want what is missing", out)
	}

	p.file(t, "sample.yaml", p.run(t, 0, "", docket, "init", "--sink", "spool", "--sink", "spool"))
	if out := p.run(t, 0, "", docket, "check", "-f", "sample.yaml"); !strings.Contains(out, "sample.yaml: ok\n") {
		t.Errorf("check of what init writes: got %q, want ok", out)
	}
	if out := p.run(t, 0, "", docket, "config", "--schema"); !strings.Contains(out, `"spool": {`) {
		t.Error("the schema does not know the sink")
	}

	exporter := p.command(docket, "run", "-f", "docket.yaml")
	var log bytes.Buffer
	exporter.Stderr = &log
	if err := exporter.Start(); err != nil {
		t.Fatal(err)
	}
	p.run(t, 0, `{"decision":"deny"}`, docket, "send", "--timeout", "1m", "-f", "docket.yaml")
	if err := exporter.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := exporter.Wait(); err != nil {
		t.Fatalf("docket run: %v\n%s", err, log.Bytes())
	}
	files, err := filepath.Glob(filepath.Join(p.dir, "records", "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("got the files %q, %v, want one\n%s", files, err, log.Bytes())
	}
	if got, err := os.ReadFile(files[0]); err != nil || string(got) != `{"decision":"deny"}` {
		t.Errorf("got the record %q, %v, want the one that was sent", got, err)
	}
}
