// Package manifests tests manifests/ with the API server that they are for.
package manifests

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/docket-export/docket/internal/repo"
	"github.com/docket-export/docket/test/kubetest"
)

// TestWebhook does what manifests/README.md says: an overlay of docket-webhook, with a configuration of one's own,
// which an API server that enforces restricted takes.
func TestWebhook(t *testing.T) {
	root, err := repo.Root()
	if err != nil {
		t.Fatal(err)
	}
	mine := t.TempDir()
	manifests := filepath.Join(mine, "docket", "manifests")
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
	const config = "apiVersion: docket.dev/v1alpha1\nkind: Exporter # mine\n"
	for name, text := range map[string]string{"kustomization.yaml": string(example[1]), "docket.yaml": config} {
		if err := os.WriteFile(filepath.Join(mine, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := kubetest.Start(t, kubetest.Options{})
	c.ApplyCRDs()
	c.RestrictedNamespace("docket-webhook")
	text, err := c.Try("", "kustomize", mine)
	if err == nil {
		err = c.Accepts("docket-webhook", text)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{
		"Certificate", "ClusterRole", "ConfigMap", "CustomResourceDefinition", "Deployment", "Issuer", "PodDisruptionBudget", "PodMonitor",
		"PrometheusRule", "Role", "Service", "ServiceAccount", "ValidatingWebhookConfiguration",
	} {
		if !strings.Contains(text, "\nkind: "+kind+"\n") {
			t.Errorf("there is no %s", kind)
		}
	}
	if n := strings.Count(text, "image: registry.example.com/docket:1.0.0\n"); n != 2 || strings.Contains(text, "image: docket") {
		t.Errorf("got %d pods with docket beside them, want 2, and an image of its own for each container:\n%s", n, text)
	}
	if n := strings.Count(text, "docket.yaml: |"); n != 1 || !strings.Contains(text, "kind: Exporter # mine") {
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
