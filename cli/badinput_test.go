package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/internal/testcli"
)

// TestBadInput throws everything that a producer can do wrong at the real
// program, while a good producer works beside it: the program survives, says
// what was wrong, and the good producer notices nothing.
func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	admin, err := testcli.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "docket.yaml"), strings.NewReplacer("ADMIN", admin, "DIR", dir).Replace(`apiVersion: docket.dev/v1alpha1
kind: Exporter
sources:
- name: local
  unix: {path: DIR/docket.sock}
queue: {directory: DIR/queue}
sinks:
- name: export
  batch: {maxWait: 5ms}
  file: {directory: DIR/export}
- name: down
  http: {url: "http://ADMIN/nobody-takes-this"}
admin: {address: "ADMIN"}
shutdown: {drainTimeout: 100ms}
limits: {maxRecordBytes: 4Ki}
`))
	socket := filepath.Join(dir, "docket.sock")
	docket := startDocket(t, dir)
	if err := waitReady(t, admin); err != nil {
		t.Fatal(err)
	}
	good := newKillProducer(t, socket, 0)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan struct{})
	go func() { defer close(ended); good.run(ctx) }()

	const hello = `{"docket":{"version":1,"producer":"bad","next":1}}` + "\n"
	tests := map[string]struct{ send, want string }{
		"invalid JSON":       {hello + "{]\n", `{"refused":{"seq":1,"reason":"InvalidJSON"`},
		"not an object":      {hello + "[1]\n", `{"refused":{"seq":1,"reason":"NotObject"`},
		"over-long line":     {hello + `{"a":"` + strings.Repeat("x", 5000) + "\"}\n{}\n", `{"refused":{"seq":1,"reason":"TooLarge"`},
		"invalid UTF-8":      {hello + "{\"a\":\"\xff\"}\n", `{"refused":{"seq":1,"reason":"InvalidJSON","detail":"not UTF-8`},
		"NUL byte":           {hello + "{\"a\":\"\x00\"}\n", `{"refused":{"seq":1,"reason":"InvalidJSON"`},
		"endless line":       {hello + strings.Repeat("x", 17*4096), `"error":"lost framing`},
		"hello without next": {`{"docket":{"version":1,"producer":"bad"}}` + "\n", `"error":"broken hello`},
		"hello with next 0":  {`{"docket":{"version":1,"producer":"bad","next":0}}` + "\n", `"error":"broken hello: next must be`},
		"hello of version 9": {`{"docket":{"version":9,"producer":"bad","next":1}}` + "\n", `"error":"broken hello: version 9`},
		"hello of nobody":    {`{"docket":{"version":1,"producer":"","next":1}}` + "\n", `"error":"broken hello: producer must`},
		"hello in midstream": {hello + "{}\n" + hello, `"error":"broken hello`},
		"half a line":        {hello + `{"half":`, `{"docket":{"version":1,"acked":0}}`},
		"sequence gap":       {strings.Replace(hello, `"next":1`, `"next":1000`, 1) + "{}\n", `{"ack":1000}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			// A producer of its own for each: what one has sent is known again.
			id := `"producer":"` + strings.ReplaceAll(name, " ", "-") + `"`
			got := exchange(t, socket, strings.ReplaceAll(tt.send, `"producer":"bad"`, id))
			if !strings.Contains(got, tt.want) {
				t.Errorf("answer:\n got  %q\n want %q in it", got, tt.want)
			}
		})
	}
	stop()
	<-ended
	want := good.finish(t)
	waitDelivered(t, admin, uint64(len(want)))
	var got []string
	for _, line := range exportedLines(t, filepath.Join(dir, "export")) {
		if strings.Contains(line, good.name) {
			got = append(got, line)
		}
	}
	compareLines(t, good.name, got, want)
	if n := good.sender.Stats().Connections; n != 1 {
		t.Errorf("the good producer needed %d connections, want 1", n)
	}
	interrupt(t, docket)
	if err := docket.Wait(); err != nil {
		t.Errorf("docket run: %v", err)
	}
}

// exchange sends text on a connection of its own, closes the writing side, and
// returns everything that is answered.
func exchange(t *testing.T, socket, text string) string {
	t.Helper()
	nc, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if err := nc.SetDeadline(time.Now().Add(await.Left(t))); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(nc, text); err != nil && !errors.Is(err, syscall.EPIPE) {
		t.Fatal(err) // an exporter that has heard enough may close before the end
	}
	if err := nc.(*net.UnixConn).CloseWrite(); err != nil && !errors.Is(err, syscall.ENOTCONN) {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(nc)
	if err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("read the answer: %v, so far %q", err, answer)
	}
	return string(answer)
}

// TestSecondProcess: the queue belongs to one process, and the second is told
// which that is.
func TestSecondProcess(t *testing.T) {
	dir := t.TempDir()
	admin, err := testcli.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	config := strings.NewReplacer("ADMIN", admin, "DIR", dir).Replace(`apiVersion: docket.dev/v1alpha1
kind: Exporter
sources: [{name: local, unix: {path: DIR/docket.sock}}]
queue: {directory: DIR/queue}
sinks: [{name: export, file: {directory: DIR/export}}]
admin: {address: "ADMIN"}
`)
	writeFile(t, filepath.Join(dir, "docket.yaml"), config)
	first := startDocket(t, dir)
	if err := waitReady(t, admin); err != nil {
		t.Fatal(err)
	}
	second := startDocket(t, dir)
	if err := second.Wait(); second.ProcessState.ExitCode() != 1 {
		t.Errorf("second process: got %v, want exit code 1", err)
	}
	log, err := os.ReadFile(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	want := []byte("in use by process " + pid(first))
	if !bytes.Contains(log, want) {
		t.Errorf("log:\n%s\nwant %q in it", log, want)
	}
	interrupt(t, first)
	if err := first.Wait(); err != nil {
		t.Errorf("first process: %v", err)
	}
}
