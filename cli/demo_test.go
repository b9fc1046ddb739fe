package cli

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/docket-export/docket/cli/internal/command"
)

// TestDemo: the demo ends, and shows its own docket, while something else has the port
// of the built-in configuration and answers as another docket would.
func TestDemo(t *testing.T) {
	if l, err := net.Listen("tcp", "127.0.0.1:9464"); err == nil { // else something has it, as it should be
		other := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Write([]byte(`{"ledger":{"sinks":{}},"sinks":[],"sources":[]}`))
		})}
		go other.Serve(l)
		defer other.Close()
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	program, err := exec.LookPath("docket")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"bin", "hack"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{
		"bin/docket": program, "testdata": filepath.Join(root, "testdata"),
	} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	script := filepath.Join(dir, "hack", "demo.sh")
	writeFile(t, script, readFile(t, filepath.Join(root, "hack", "demo.sh")))
	t.Chdir(dir)
	p := newProcess(t)
	output := p.cmd.Stderr
	p.cmd = exec.Command("bash", script)
	p.cmd.Stdout, p.cmd.Stderr = output, output
	p.start()
	if got := p.wait(); got != command.ExitOK {
		t.Errorf("got exit code %d, want %d:\n%s", got, command.ExitOK, p.stderr())
	}
}
