package cli

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/exporter"
)

// pythonProducer is the package for authors of producers in Python.
const pythonProducer = "../python/docket_producer.py"

// TestPythonModule tries what the module promises beside the protocol.
func TestPythonModule(t *testing.T) {
	python, producer := needPython(t)
	test, err := filepath.Abs("testdata/python_producer_test.py")
	if err != nil {
		t.Fatal(err)
	}
	config, admin := testConfig(t)
	startProcess(t, "run", "-f", config)
	if err := waitReady(t, admin); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, test, "unix://"+filepath.Join(workingDirectory(t), "docket.sock"))
	cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Dir(producer), "PYTHONDONTWRITEBYTECODE=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	waitStatus(t, admin, func(s exporter.Status) bool {
		return s.Ledger.Refused["InvalidJSON"] == 1 && s.Ledger.Sinks["export"].Delivered == 5
	})
}

// TestPythonProducerSurvivesRestarts: the exporter is killed again and again
// under the Python producer, and all it was given is exported once, in
// order.
func TestPythonProducerSurvivesRestarts(t *testing.T) {
	python, producer := needPython(t)
	config, admin := testConfig(t)
	exporter := startProcess(t, "run", "-f", config)
	p := newProcess(t)
	p.cmd.Path, p.cmd.Args = python, []string{python, producer, "unix://" + filepath.Join(workingDirectory(t), "docket.sock")}
	p.cmd.Env = append(os.Environ(), "PYTHONUNBUFFERED=1")
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.start()

	const lines = 2000
	var want strings.Builder
	for round := range onceIfShort(5) {
		if err := waitReady(t, admin); err != nil {
			t.Fatal(err)
		}
		// More than a pipe holds: the producer has to be at work when this ends,
		// and most likely is when the exporter does.
		for n := range lines {
			line := fmt.Sprintf(`{"round": %d, "n": %d, "pad": "%s"}`+"\n", round, n, strings.Repeat("x", n%97))
			want.WriteString(line)
			if _, err := io.WriteString(in, line); err != nil {
				t.Fatalf("the producer has ended: %v\n%s", err, p.stderr())
			}
		}
		if err := exporter.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-exporter.ended
		exporter = startProcess(t, "run", "-f", config)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if got := p.wait(); got != 0 {
		t.Errorf("got exit code %d of the producer, want 0:\n%s", got, p.stderr())
	}
	exporter.interrupt()
	if got := exporter.wait(); got != command.ExitOK {
		t.Errorf("got exit code %d of the exporter, want %d:\n%s", got, command.ExitOK, exporter.stderr())
	}
	got := readFile(t, "export/decisions-active.ndjson")
	compareLines(t, "producer.py", strings.Split(got, "\n"), strings.Split(want.String(), "\n"))
	if !strings.Contains(p.stderr(), "docket: ") {
		t.Error("the producer has noticed no restart: this test shows nothing")
	}
}

// needPython returns the paths of python3 and of the producer. CI must have it; a
// developer may do without.
func needPython(t *testing.T) (python, producer string) {
	t.Helper()
	producer, err := filepath.Abs(pythonProducer)
	if err != nil {
		t.Fatal(err)
	}
	python, err = exec.LookPath("python3")
	switch {
	case err == nil:
		return python, producer
	case os.Getenv("CI") == "true":
		t.Fatalf("the Python producer needs it: %v", err)
	}
	t.Skipf("the Python producer needs it: %v", err)
	return "", ""
}

func workingDirectory(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
