//go:build soak && unix

// Package authors tests the module for Python with a real docket.
package authors

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-export/docket/internal/document/desk"
	"github.com/docket-export/docket/internal/repo"
	"github.com/docket-export/docket/internal/testcert"
	"github.com/docket-export/docket/internal/testcli"
)

// TestPythonOverTLS sends lines with the module over TLS, with a client certificate, a bad line among them and
// more than a record of TLS holds.
func TestPythonOverTLS(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Fatal(err)
	}
	address, err := testcli.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	ca, d := testcert.NewCA(t), desk.New(t)
	server, client := ca.Issue(t, host), ca.Issue(t, "engine")
	write(t, filepath.Join(d.Dir, "docket_producer.py"), read(t, "../../python/docket_producer.py"))
	write(t, filepath.Join(d.Dir, "docket.yaml"), fmt.Sprintf(`
apiVersion: docket.dev/v1alpha1
kind: Exporter
sources:
- name: remote
  tcp: {address: %q, tls: {certFile: %q, keyFile: %q, clientCAFile: %q}}
queue: {directory: queue}
admin: {address: ""}
sinks:
- name: export
  file: {directory: export}
`, address, server.CertFile, server.KeyFile, ca.File))
	write(t, filepath.Join(d.Dir, "engine.py"), fmt.Sprintf(`
import ssl
from docket_producer import Producer

tls = ssl.create_default_context(cafile=%q)
tls.load_cert_chain(%q, %q)
docket = Producer("tcp://%s", tls=tls)
for number in range(2000):
    docket.send({"number": number, "text": "x" * 1000})
docket.send(b"not json")
print("flushed:", docket.flush(60), "left:", docket.close(1))
`, ca.File, client.CertFile, client.KeyFile, address))
	d.Do(t, "docket run -f docket.yaml\n")
	said := d.Do(t, "python3 engine.py 2>&1; docket queue cat -f docket.yaml | wc -l\n")
	for _, want := range []string{"Refused(number=2001, reason='InvalidJSON'", "flushed: True left: 0", "\n2000\n"} {
		if !strings.Contains(said, want) {
			t.Errorf("got %q, want %q in it", said, want)
		}
	}
}

// TestPythonPackage installs the package, without a network.
func TestPythonPackage(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Fatal(err)
	}
	root, err := repo.Root()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", "-euc", "python3 -m venv venv; venv/bin/pip install --no-index "+filepath.Join(root, "python")+
		"; venv/bin/python -c 'import docket_producer; print(docket_producer.__file__)'")
	cmd.Dir = t.TempDir()
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "venv/lib") {
		t.Errorf("got %v, want an installed module:\n%s", err, out)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
