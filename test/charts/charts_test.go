// Package charts tests the chart of docket with the real Helm: what it refuses, and that an
// API server takes what it renders.
package charts

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/docket-export/docket/internal/repo"
	"github.com/docket-export/docket/test/dockettest"
	"github.com/docket-export/docket/test/helmtest"
)

func TestMain(m *testing.M) { os.Exit(dockettest.Main(m)) }

// usual are values that every release needs.
const usual = `
image: {repository: registry.example.com/docket, tag: 1.0.0}
config:
  sinks: [{name: siem, http: {url: "https://siem.example.com/ingest"}}]
`

// release is what a chart renders.
type release struct {
	text    string
	objects []object
}

type object = map[string]any

// chart is the directory of the chart.
func chart(t *testing.T) string {
	t.Helper()
	root, err := repo.Root()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, "charts", "docket")
}

// helm runs Helm with values, of which later ones win, and returns what it says.
func helm(t *testing.T, values []string, args ...string) (stdout string, err error) {
	t.Helper()
	home := t.TempDir()
	for i, text := range values {
		name := filepath.Join(home, fmt.Sprintf("values-%d.yaml", i))
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--values", name)
	}
	var out, said bytes.Buffer
	cmd := exec.CommandContext(t.Context(), helmtest.Program(t), args...)
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("helm %s: %w: %s%s", args[0], err, out.String(), said.String())
	}
	return out.String(), nil
}

// render returns what the chart in dir makes of values.
func render(t *testing.T, dir string, values ...string) release {
	t.Helper()
	text, err := helm(t, values, "template", "policy", dir, "--namespace", "restricted")
	if err != nil {
		t.Fatal(err)
	}
	r := release{text: text}
	for d := yaml.NewDecoder(strings.NewReader(text)); ; {
		var o object
		err := d.Decode(&o)
		if errors.Is(err, io.EOF) {
			return r
		}
		if err != nil {
			t.Fatalf("%v in:\n%s", err, text)
		}
		r.objects = append(r.objects, o)
	}
}

// get returns what is in an object of a kind at a path.
func (r release) get(t *testing.T, kind string, path ...any) any {
	t.Helper()
	for _, o := range r.objects {
		if o["kind"] != kind {
			continue
		}
		var v any = o
		for _, key := range path {
			switch at := v.(type) {
			case object:
				v = at[key.(string)]
			case []any:
				v = at[key.(int)]
			default:
				t.Fatalf("%s has no %v: %v is no part of %v", kind, path, key, v)
			}
		}
		return v
	}
	t.Fatalf("no %s in:\n%s", kind, r.text)
	return nil
}

// engine is the directory of a chart that depends on docket's.
func engine(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/engine")); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(dir, "charts", "docket"), os.DirFS(chart(t))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// below puts values under a key, as a chart that depends on docket's has them.
func below(key, values string) string {
	return key + ":\n  " + strings.ReplaceAll(strings.TrimSpace(values), "\n", "\n  ") + "\n"
}

// docket runs a command of docket, which must succeed.
func docket(t *testing.T, args ...string) []byte {
	t.Helper()
	var said bytes.Buffer
	cmd := exec.CommandContext(t.Context(), dockettest.Program(t), args...)
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("docket %s: %v: %s%s", strings.Join(args, " "), err, out, said.String())
	}
	return out
}

// write puts text into a file of the test.
func write(t *testing.T, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLint(t *testing.T) {
	for _, name := range []string{"statefulset", "tap", "sidecar"} {
		if _, err := helm(t, append([]string{usual}, accepted[name]...), "lint", "--strict", chart(t)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := helm(t, []string{below("docket", usual)}, "lint", "--strict", engine(t)); err != nil {
		t.Error(err)
	}
}
