package cli

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/internal/testcli"
)

// docket runs the program and returns what it has written and its exit code.
func docket(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs strings.Builder
	cmd := exec.Command("docket", args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// A damaged copy of a queue: what check and cat say to it.
func TestDamagedQueue(t *testing.T) {
	t.Parallel()
	dir := testcli.DamagedQueue(t, `{"n":3}`)
	place := "00000000000000000001-0000000001.segment:"
	run := func(wantCode int, wantOut, wantErr string, args ...string) string {
		t.Helper()
		out, errs, code := docket(t, append(args, "--queue", dir)...)
		if code != wantCode || !strings.Contains(out, wantOut) || !strings.Contains(errs, wantErr) || (wantErr == "") != (errs == "") {
			t.Errorf("docket %s: got exit code %d\n%s%swant %d with %q and on stderr %q", strings.Join(args, " "), code, out, errs, wantCode, wantOut, wantErr)
		}
		return out
	}
	const lost = ": 88 bytes cannot be read (payload checksum mismatch): record 3 is lost to a"
	const left = "{\"n\":1}\n{\"n\":2}\n{\"n\":4}\n{\"n\":5}\n{\"n\":6}\n"

	if out := run(1, place, "findings: 1; 5 records", "queue", "check"); !strings.Contains(out, "damage"+lost) || strings.Count(out, "\n") != 1 {
		t.Errorf("got %q, want one line with %q", out, lost)
	}
	if out := run(1, "", "record 3 is lost", "queue", "cat"); out != left {
		t.Errorf("got %q, want %q", out, left)
	}
	run(0, "{\"n\":4}\n", "", "queue", "cat", "--from", "4")
}

// manyRecords makes a queue with more in it than a pipe takes.
func manyRecords(t *testing.T, dir string) {
	t.Helper()
	q, err := queue.Open(queue.Options{Directory: dir})
	if err != nil {
		t.Fatal(err)
	}
	settled := make(chan struct{})
	records := bytes.Repeat([]byte("{\"a\":\"line of some length\"}\n"), 100_000)
	if err := q.Append(t.Context(), &queue.Chunk{Source: "local", Received: time.Now(), Count: 100_000, Records: records}, func() { close(settled) }); err != nil {
		t.Fatal(err)
	}
	<-settled
	if err := q.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// docket starts while somebody looks at the files of its queue, however long that takes.
func TestStartBesideALook(t *testing.T) {
	file, admin := testConfig(t)
	manyRecords(t, "queue")
	for _, look := range [][]string{{"queue", "cat"}, {"query"}} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		p := newProcess(t, append(look, "-f", file)...)
		p.cmd.Stdout = w
		p.start()
		w.Close()
		if _, err := r.Read(make([]byte, 100)); err != nil { // it goes on when more is read
			t.Fatal(err)
		}
		run := startProcess(t, "run", "-f", file)
		if err := waitReady(t, admin); err != nil {
			t.Fatalf("beside %q: %v\n%s", look, err, run.stderr())
		}
		r.Close()
		run.interrupt()
		run.wait()
		p.wait()
	}
}
