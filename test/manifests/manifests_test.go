// Package manifests tests manifests/ with the API server that they are for.
package manifests

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/test/internal/repo"
	"github.com/docket-export/docket/test/kubetest"
)

// TestKustomize renders whatever can be rendered by itself, with kubectl, and has an API
// server that enforces restricted take it.
func TestKustomize(t *testing.T) {
	root, err := repo.Root()
	if err != nil {
		t.Fatal(err)
	}
	c := kubetest.Start(t, kubetest.Options{})
	c.ApplyCRDs()
	// That of the overlays, which name it.
	const namespace = "docket"
	c.RestrictedNamespace(namespace)
	for dir, want := range map[string][]string{
		"overlays/sidecar": {"ConfigMap", "Deployment", "PodMonitor", "PrometheusRule"},
		"statefulset":      {"ConfigMap", "Service", "StatefulSet"},
		"tap":              {"ConfigMap", "Service", "Deployment", "PodDisruptionBudget"},
		"overlays/central": append(slices.Clone(components), "ConfigMap", "Service", "StatefulSet"),
		"overlays/tap":     append(slices.Clone(components), "ConfigMap", "Service", "Deployment", "PodDisruptionBudget"),
	} {
		text := accepted(t, c, namespace, filepath.Join(root, "manifests", dir))
		for _, kind := range want {
			if !strings.Contains(text, "\nkind: "+kind+"\n") {
				t.Errorf("%s: there is no %s", dir, kind)
			}
		}
		if strings.HasPrefix(dir, "overlays/") && strings.Count(text, "image: docket") > 0 {
			t.Errorf("%s: an image is not replaced", dir)
		}
	}
}

// TestOverlay does what manifests/README.md says: an overlay of one's own, with another
// namespace and configuration.
func TestOverlay(t *testing.T) {
	root, err := repo.Root()
	if err != nil {
		t.Fatal(err)
	}
	manifests := filepath.Join(t.TempDir(), "manifests")
	if err := os.CopyFS(manifests, os.DirFS(filepath.Join(root, "manifests"))); err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(manifests, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	example := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindSubmatch(readme)
	if example == nil {
		t.Fatal("the page has no example")
	}
	mine := filepath.Join(manifests, "overlays", "mine")
	if err := os.Mkdir(mine, 0o755); err != nil {
		t.Fatal(err)
	}
	const config = "apiVersion: docket.dev/v1alpha1\nkind: Exporter # mine\n"
	for name, text := range map[string]string{"kustomization.yaml": string(example[1]), "docket.yaml": config} {
		if err := os.WriteFile(filepath.Join(mine, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := kubetest.Start(t, kubetest.Options{})
	c.ApplyCRDs()
	c.RestrictedNamespace("policy")
	text := accepted(t, c, "policy", mine)
	for _, want := range []string{"kind: Exporter # mine", "image: registry.example.com/docket:1.0.0", "\nkind: StatefulSet\n", "\nkind: PodMonitor\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
	if n := strings.Count(text, "docket.yaml: |"); n != 1 {
		t.Errorf("got %d configurations, want that of the overlay", n)
	}
}

// accepted is what kustomize makes of dir, which the API server takes.
func accepted(t *testing.T, c *kubetest.Cluster, namespace, dir string) string {
	t.Helper()
	text, err := c.Try("", "kustomize", dir)
	if err == nil {
		err = c.Accepts(namespace, text)
	}
	if err != nil {
		t.Errorf("%s: %v", dir, err)
	}
	return text
}

// components are the kinds that the overlays add.
var components = []string{"Certificate", "Issuer", "NetworkPolicy", "PodMonitor", "PrometheusRule"}
