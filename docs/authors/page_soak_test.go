//go:build soak && unix

// Package authors follows the pages for authors of engines and producers.
package authors

import (
	"archive/zip"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-export/docket/internal/document"
	"github.com/docket-export/docket/internal/document/desk"
	"github.com/docket-export/docket/internal/repo"
	"github.com/docket-export/docket/internal/testcert"
	"github.com/docket-export/docket/internal/testcli"
)

// TestAuthorsPage does what docs/authors.md says. The versions that it gets are those of this tree.
func TestAuthorsPage(t *testing.T) {
	desk.Needs(t, "python3")
	root, err := repo.Root()
	if err != nil {
		t.Fatal(err)
	}
	admin, err := testcli.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	d := desk.New(t, "127.0.0.1:9464", admin)
	cache, err := exec.Command("go", "env", "GOCACHE").Output() // a desk has another home
	if err != nil {
		t.Fatal(err)
	}
	proxy := t.TempDir()
	for _, module := range []string{"client", "decision", "webhook"} {
		publish(t, proxy, "github.com/docket-export/docket/"+module, filepath.Join(root, module))
	}
	for name, value := range map[string]string{"GOPROXY": "file://" + proxy, "GOSUMDB": "off", "GOWORK": "off", "GOFLAGS": os.Getenv("GOFLAGS") + " -modcacherw", "GOMODCACHE": t.TempDir(), "GOCACHE": strings.TrimSpace(string(cache))} {
		t.Setenv(name, value)
	}
	if err := os.Symlink(root, filepath.Join(d.Dir, "docket")); err != nil {
		t.Fatal(err)
	}
	d.Follow(t, document.Read(t, "authors.md").Steps())
}

// TestPythonOverTLS sends lines with the module over TLS, with a client certificate, a bad line among them and
// more than a record of TLS holds.
func TestPythonOverTLS(t *testing.T) {
	desk.Needs(t, "python3")
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
	desk.Needs(t, "python3")
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

// publish makes version 0.1.0 of a module, as a proxy of modules has it.
func publish(t *testing.T, proxy, path, dir string) {
	t.Helper()
	const version = "v0.1.0"
	at := filepath.Join(proxy, path, "@v")
	if err := os.MkdirAll(at, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(at, "list"), version+"\n")
	write(t, filepath.Join(at, version+".info"), `{"Version":"`+version+`"}`)
	write(t, filepath.Join(at, version+".mod"), read(t, filepath.Join(dir, "go.mod")))
	file, err := os.Create(filepath.Join(at, version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	archive := zip.NewWriter(file)
	err = filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil && name != dir {
				return fs.SkipDir // a module of its own
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") && filepath.Base(name) != "go.mod" {
			return nil
		}
		inside, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		w, err := archive.Create(path + "@" + version + "/" + filepath.ToSlash(inside))
		if err != nil {
			return err
		}
		_, err = w.Write([]byte(read(t, name)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
}
