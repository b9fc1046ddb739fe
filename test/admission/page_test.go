package admission

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/docket-export/docket/internal/document"
	"github.com/docket-export/docket/test/kubetest"
)

// word is one of a command line, in single quotes or without.
var word = regexp.MustCompile(`'[^']*'|\S+`)

// follow runs a block of kubectl commands, with the files in dir.
func follow(t *testing.T, c *kubetest.Cluster, dir, block string) {
	t.Helper()
	for line := range strings.Lines(block) {
		words := word.FindAllString(line, -1)
		if words[0] != "kubectl" {
			t.Fatalf("got the command %q, want one of kubectl", line)
		}
		for i, w := range words {
			if words[i] = strings.Trim(w, "'"); strings.HasSuffix(w, ".yaml") {
				words[i] = filepath.Join(dir, w)
			}
		}
		c.Kubectl(words[1:]...)
	}
}

// containers returns the names of those of a pod's specification at path.
func containers(c *kubetest.Cluster, path string, args ...string) []string {
	return strings.Fields(c.Kubectl(append(args, "-o", "jsonpath={"+path+".initContainers[*].name} {"+path+".containers[*].name}")...))
}

// asJSON is YAML as the API server takes it without guesses.
func asJSON(t *testing.T, text string) (v any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// submit has the API server check an object strictly, and keep it.
func submit(t *testing.T, c *kubetest.Cluster, object any) {
	t.Helper()
	text, err := json.Marshal(object)
	if err == nil {
		_, err = c.Try(string(text), "create", "--validate=strict", "-f", "-")
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A real API server takes the manifests and commands of docs/admission.md, on top of
// what the release of Gatekeeper has, and makes of them what the page says.
func TestPage(t *testing.T) {
	page := document.Read(t, "admission.md")
	c := kubetest.Start(t, kubetest.Options{})
	config := page.Section(t, "docket's own configuration").Blocks(t, "yaml")[0]
	t.Run("Gatekeeper", func(t *testing.T) { inGatekeeper(t, page, c, config) })
	t.Run("Kyverno", func(t *testing.T) { inKyverno(t, page, c) })
	t.Run("Kubewarden", func(t *testing.T) { inKubewarden(t, page, c, config) })
}

func inGatekeeper(t *testing.T, page document.Page, c *kubetest.Cluster, config string) {
	const space = "gatekeeper-system"
	c.Kubectl("create", "namespace", space)
	kept := regexp.MustCompile(`(?m)^kind: (Deployment|Service)$`)
	for _, manifest := range kubetest.GatekeeperManifests(t) {
		if kept.MatchString(manifest) {
			c.Apply(manifest)
		}
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"docket-config.yaml": config, "gatekeeper-tap.yaml": page.Section(t, "Gatekeeper").Blocks(t, "yaml")[0]} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	steps := page.Section(t, "Gatekeeper").Blocks(t, "sh")
	target := func() string {
		return c.Kubectl("-n", space, "get", "service", "gatekeeper-webhook-service", "-o", "jsonpath={.spec.ports[0].targetPort}")
	}
	before := target()
	follow(t, c, dir, steps[0])
	got := containers(c, ".spec.template.spec", "-n", space, "get", "deployment", "gatekeeper-controller-manager")
	slices.Sort(got)
	if want := []string{"docket", "manager", "tap"}; !slices.Equal(got, want) {
		t.Errorf("got the containers %q, want %q", got, want)
	}
	// The volume that the page takes for granted is the release's.
	secret := c.Kubectl("-n", space, "get", "deployment", "gatekeeper-controller-manager", "-o", `jsonpath={.spec.template.spec.volumes[?(@.name=="cert")].secret.secretName}`)
	if secret != "gatekeeper-webhook-server-cert" {
		t.Errorf("got the Secret %q behind the volume cert, want Gatekeeper's", secret)
	}
	follow(t, c, dir, steps[1])
	if got := target(); got != "tap" {
		t.Errorf("got the port %q of the Service, want tap", got)
	}
	follow(t, c, dir, steps[2])
	if got := target(); got != before {
		t.Errorf("back: got the port %q of the Service, want %q", got, before)
	}
}

// inKyverno makes the pod that the chart makes of the values, as far as they go, and the
// Service whose port is changed.
func inKyverno(t *testing.T, page document.Page, c *kubetest.Cluster) {
	const space = "kyverno"
	c.Kubectl("create", "namespace", space)
	values := asJSON(t, page.Section(t, "Kyverno").Blocks(t, "yaml")[0]).(map[string]any)["admissionController"].(map[string]any)
	engine := map[string]any{"name": "kyverno", "image": "kyverno", "lifecycle": values["container"].(map[string]any)["lifecycle"]}
	submit(t, c, map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "kyverno", "namespace": space},
		"spec": map[string]any{
			"initContainers": values["extraInitContainers"],
			"containers":     append(values["extraContainers"].([]any), engine),
			"volumes":        values["extraVolumes"],
		},
	})
	submit(t, c, map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "kyverno-svc", "namespace": space},
		"spec": map[string]any{"ports": []any{map[string]any{"name": "https", "port": 443, "targetPort": "https"}}},
	})
	follow(t, c, "", page.Section(t, "Kyverno").Blocks(t, "sh")[0])
	if got := c.Kubectl("-n", space, "get", "service", "kyverno-svc", "-o", "jsonpath={.spec.ports[0].targetPort}"); got != "tap" {
		t.Errorf("got the port %q of the Service, want tap", got)
	}
}

// policyServers is the kind that the last command changes, without its schema.
const policyServers = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: policyservers.policies.kubewarden.io}
spec:
  group: policies.kubewarden.io
  names: {kind: PolicyServer, plural: policyservers, singular: policyserver}
  scope: Cluster
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: policies.kubewarden.io/v1
kind: PolicyServer
metadata: {name: default}
`

// inKubewarden makes pods as Kubewarden's controller does, with the label that the page
// has it set and without.
func inKubewarden(t *testing.T, page document.Page, c *kubetest.Cluster, config string) {
	const space = "kubewarden"
	c.Kubectl("create", "namespace", space)
	c.Apply(strings.Replace(config, "gatekeeper-system", space, 1))
	c.Apply(policyServers)
	c.Apply(page.Section(t, "Kubewarden").Blocks(t, "yaml")[0])
	follow(t, c, "", page.Section(t, "Kubewarden").Blocks(t, "sh")[0])
	labels := map[string]any{}
	text := c.Kubectl("get", "policyserver", "default", "-o", "jsonpath={.spec.labels}")
	if err := json.Unmarshal([]byte(text), &labels); err != nil {
		t.Fatal(err)
	}
	labels["app.kubernetes.io/instance"], labels["app.kubernetes.io/part-of"] = "policy-server-default", "kubewarden"
	pod := func(name string, labels map[string]any) []string {
		submit(t, c, map[string]any{
			"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": name, "namespace": space, "labels": labels},
			"spec": map[string]any{
				"containers": []any{map[string]any{"name": "policy-server-default", "image": "policy-server"}},
				"volumes":    []any{map[string]any{"name": "certs", "emptyDir": map[string]any{}}},
			},
		})
		return containers(c, ".spec", "-n", space, "get", "pod", name)
	}
	n := 0
	await(t, "the policy to change pods", func() error {
		n++
		got := pod(fmt.Sprintf("tapped-%d", n), labels)
		if want := []string{"docket", "policy-server-default", "tap"}; !slices.Equal(got, want) {
			return fmt.Errorf("got the containers %q, want %q", got, want)
		}
		return nil
	})
	secret := c.Kubectl("-n", space, "get", "pod", fmt.Sprintf("tapped-%d", n), "-o", `jsonpath={.spec.volumes[?(@.name=="tap-certs")].projected.sources[0].secret.name}`)
	if secret != "policy-server-default" {
		t.Errorf("got the certificate of %q, want that of the policy server", secret)
	}
	delete(labels, "docket.dev/tap")
	if got := pod("plain", labels); !slices.Equal(got, []string{"policy-server-default"}) {
		t.Errorf("without the label: got the containers %q, want one", got)
	}
}
