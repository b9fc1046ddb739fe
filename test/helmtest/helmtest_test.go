package helmtest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/docket-export/docket/test/helmtest"
)

// A chart sees the release of Helm, and the minor version of the Kubernetes that tests run.
func TestProgram(t *testing.T) {
	helm := helmtest.Program(t)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"Chart.yaml":              "{apiVersion: v2, name: versions, version: 0.1.0}",
		"templates/versions.yaml": "helm: {{ .Capabilities.HelmVersion.Version }}\nkubernetes: {{ .Capabilities.KubeVersion }}\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command(helm, "template", dir).CombinedOutput()
	const want = "---\n# Source: versions/templates/versions.yaml\nhelm: v4.3.1\nkubernetes: v1.37.0\n"
	if err != nil || string(out) != want {
		t.Errorf("got %q, %v; want %q", out, err, want)
	}
}
