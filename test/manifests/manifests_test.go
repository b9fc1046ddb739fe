// Package manifests tests manifests/ with the API server that they are for.
package manifests

import (
	"path/filepath"
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
		text, err := c.Try("", "kustomize", filepath.Join(root, "manifests", dir))
		if err != nil {
			t.Errorf("%s: %v", dir, err)
			continue
		}
		if err := c.Accepts(namespace, text); err != nil {
			t.Errorf("%s: %v", dir, err)
		}
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

// components are the kinds that the overlays add.
var components = []string{"Certificate", "Issuer", "NetworkPolicy", "PodMonitor", "PrometheusRule"}
