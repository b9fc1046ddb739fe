package cli

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/internal/testcli"
)

// TestSecondSignal: the first signal drains for as long as a producer is connected, and says
// who that is and what is left meanwhile; the second one ends the process, and says what is
// left.
func TestSecondSignal(t *testing.T) {
	config, admin := testConfig(t)
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, config, strings.Replace(string(text), "sinks:\n", "sinks:\n- name: down\n  http: {url: http://127.0.0.1:1}\n", 1))
	p := startProcess(t, "run", "-f", config)
	if err := waitReady(t, admin); err != nil {
		t.Fatal(err)
	}
	producer, err := net.Dial("unix", "docket.sock")
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	if err := producer.SetDeadline(time.Now().Add(await.Left(t))); err != nil {
		t.Fatal(err)
	}
	// An answer says that it is connected: before that it may only wait to be let in.
	io.WriteString(producer, `{"docket":{"version":1,"producer":"p","next":1}}`+"\n")
	answers := bufio.NewReader(producer)
	if answer, err := answers.ReadString('\n'); err != nil {
		t.Fatalf("got answer %q, %v, want one to the hello", answer, err)
	}
	io.WriteString(producer, "{}\n{}\n{}\n")
	for answer := ""; answer != "{\"ack\":3}\n"; {
		if answer, err = answers.ReadString('\n'); err != nil {
			t.Fatalf("got answer %q, %v, want one to all lines", answer, err)
		}
	}
	waitStatus(t, admin, func(s exporter.Status) bool { return s.Ledger.Sinks["export"].Pending == 0 })

	p.interrupt()
	eventually(t, "an exporter that is not ready", func() bool { return !isReady(t, admin) })
	p.says(fmt.Sprintf(`"msg":"stopping: waiting for producers to close","left":{"down":3},"connections":{"local":1},"producers":"local uid:%d p","atMost":"`, os.Getuid()))
	p.interrupt()
	if got := p.wait(); got != command.ExitFailed {
		t.Errorf("got exit code %d after the second signal, want %d", got, command.ExitFailed)
	}
	if got, want := p.stderr(), "docket run: ended at once by a second signal; left for the next start, by sink: down 3\n"; !strings.HasSuffix(got, want) {
		t.Errorf("got %q, want %q at its end", got, want)
	}
}

// TestSecondProcess: the queue belongs to one process, and the second is told which that is.
func TestSecondProcess(t *testing.T) {
	config, admin := testConfig(t)
	first := startProcess(t, "run", "-f", config)
	if err := waitReady(t, admin); err != nil {
		t.Fatal(err)
	}
	second := startProcess(t, "run", "-f", config)
	if got, want := second.wait(), fmt.Sprintf("in use by process %d", first.cmd.Process.Pid); got != command.ExitFailed || !strings.Contains(second.stderr(), want) {
		t.Errorf("got exit code %d and %q, want %d and %q", got, second.stderr(), command.ExitFailed, want)
	}
}

// testConfig changes to a directory with a configuration in it.
func testConfig(t *testing.T) (file, admin string) {
	t.Helper()
	admin, err := testcli.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	writeFile(t, "docket.yaml", strings.ReplaceAll(`apiVersion: docket.dev/v1alpha1
kind: Exporter
sources:
- name: local
  unix: {path: docket.sock}
queue: {directory: queue}
sinks:
- name: export
  file: {directory: export}
admin: {address: "ADMIN"}
shutdown: {drainTimeout: 1h}
`, "ADMIN", admin))
	return "docket.yaml", admin
}

// process is this program, run in the current directory.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	ended chan struct{}
}

func newProcess(t *testing.T, args ...string) *process {
	t.Helper()
	return newProcessIn(t, ".", args...)
}

// newProcessIn is a process in another directory, for a test that runs beside others.
func newProcessIn(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	log, err := os.CreateTemp(dir, "stderr")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	cmd := exec.Command("docket", args...)
	cmd.Dir, cmd.Stderr = dir, log
	return &process{t: t, cmd: cmd, ended: make(chan struct{})}
}

func startProcess(t *testing.T, args ...string) *process {
	t.Helper()
	p := newProcess(t, args...)
	p.start()
	return p
}

func (p *process) start() {
	p.t.Helper()
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		p.cmd.Wait() // the exit code says it all
	}()
	p.t.Cleanup(p.kill)
}

// kill ends the process without a word, if it has not ended, and waits until its files are closed.
func (p *process) kill() {
	p.cmd.Process.Kill() // does nothing once it has ended
	<-p.ended
}

func (p *process) interrupt() {
	p.t.Helper()
	interrupt(p.t, p.cmd)
}

func interrupt(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
}

// wait returns the exit code.
func (p *process) wait() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(await.Left(p.t)):
		p.t.Fatalf("got %v still running, want it ended:\n%s", p.cmd.Args, p.stderr())
	}
	return p.cmd.ProcessState.ExitCode()
}

// stderr is what the process has written so far.
func (p *process) stderr() string {
	p.t.Helper()
	return readFile(p.t, p.cmd.Stderr.(*os.File).Name())
}

// eventually polls for something that another process does. A failure in another goroutine
// of the test ends it: that goroutine may be what the test waits for.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	await.Until(t, what, func() bool {
		if t.Failed() {
			t.FailNow()
		}
		return done()
	})
}

// dialSocket connects to docket.sock once it listens: its file is there a moment before.
func dialSocket(t *testing.T) (producer net.Conn) {
	t.Helper()
	eventually(t, "a socket that listens", func() bool {
		var err error
		producer, err = net.Dial("unix", "docket.sock")
		return err == nil
	})
	return producer
}

func isReady(t *testing.T, admin string) bool {
	t.Helper()
	res, err := http.Get("http://" + admin + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// get returns what an endpoint answers at url.
func get(t *testing.T, url string) string {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
