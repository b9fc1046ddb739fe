// Package manifests tests manifests/ with the API server that they are for.
package manifests

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/internal/repo"
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
	// Those of the overlays, which name them.
	c.RestrictedNamespace("docket")
	c.RestrictedNamespace("docket-webhook")
	for dir, want := range map[string][]string{
		"overlays/sidecar": {"ConfigMap", "Deployment", "PodMonitor", "PrometheusRule"},
		"statefulset":      {"ConfigMap", "Service", "StatefulSet"},
		"tap":              {"ConfigMap", "Service", "Deployment", "PodDisruptionBudget"},
		"overlays/central": append(slices.Clone(components), "ConfigMap", "Service", "StatefulSet"),
		"overlays/tap":     append(slices.Clone(components), "ConfigMap", "Service", "Deployment", "PodDisruptionBudget"),
		"overlays/webhook": {
			"Certificate", "ClusterRole", "ConfigMap", "CustomResourceDefinition", "Deployment", "Issuer", "PodDisruptionBudget", "Role", "Service",
			"ServiceAccount", "ValidatingWebhookConfiguration",
		},
	} {
		namespace := "docket"
		if dir == "overlays/webhook" {
			namespace = "docket-webhook"
		}
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

// TestPolicyStatus writes what docket-webhook does into the objects of its CRDs, and reads all of it back.
func TestPolicyStatus(t *testing.T) {
	root, err := repo.Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "manifests", "docket-webhook", "crds.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	c := kubetest.Start(t, kubetest.Options{})
	c.Apply(string(text))
	c.Kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
	c.Apply(kubetest.RequiredLabels)

	const status = `{"byPod":[{"enforcedGeneration":1,"errors":[{"code":"CompileFailed","message":"m"}],"id":"a","observedGeneration":2,"operations":["webhook"],` +
		`"phase":"Degraded","reason":"CompileFailed","since":"2026-01-01T00:00:00Z","templateUID":"u"}],` +
		`"docket":{"enforcing":0,"phase":"Degraded","pods":1,"reason":"CompileFailed"}}`
	const template = "constrainttemplate/k8srequiredlabels"
	c.Kubectl("patch", template, "--subresource=status", "--type=merge", "-p", `{"status":`+status+`}`)
	if got := c.Kubectl("get", template, "-o", "jsonpath={.status}"); got != status {
		t.Errorf("status of a template: got %s, want %s", got, status)
	}
	if got := strings.Join(strings.Fields(c.Kubectl("get", template, "--no-headers")), " "); !strings.HasPrefix(got, "k8srequiredlabels Degraded 0 1 ") {
		t.Errorf("columns of a template: got %q", got)
	}

	const pod = `{"operations":["webhook"],"policies":[{"enforcedGeneration":1,"errors":[{"code":"CompileFailed","message":"m"}],"kind":"ConstraintTemplate",` +
		`"name":"k8srequiredlabels","observedGeneration":2,"phase":"Degraded","reason":"CompileFailed","since":"2026-01-01T00:00:00Z","uid":"u"}]}`
	c.Apply(`{"apiVersion": "status.docket.dev/v1alpha1", "kind": "PolicyPodStatus", "metadata": {"name": "a", "namespace": "default"}, "status": ` + pod + `}`)
	if got := c.Kubectl("get", "policypodstatus", "a", "-o", "jsonpath={.status}"); got != pod {
		t.Errorf("status of a pod: got %s, want %s", got, pod)
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
