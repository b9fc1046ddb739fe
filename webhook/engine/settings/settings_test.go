package settings

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := new(unstructured.Unstructured)
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		t.Fatal(err)
	}
	return object
}

const config = `
apiVersion: config.gatekeeper.sh/v1alpha1
kind: Config
metadata: {name: config, namespace: gatekeeper-system}
spec:
  sync:
    syncOnly:
    - {group: "", version: v1, kind: Pod}
    - {group: networking.k8s.io, version: v1, kind: Ingress}
  match:
  - {processes: ["*"], excludedNamespaces: ["kube-*"]}
  - {processes: [audit, sync], excludedNamespaces: [builds]}
`

const syncSet = `
apiVersion: syncset.gatekeeper.sh/v1alpha1
kind: SyncSet
metadata: {name: pods}
spec:
  gvks:
  - {version: v1, kind: Pod}
  - {version: v1, kind: Namespace}
`

func TestOf(t *testing.T) {
	broken := parse(t, "kind: SyncSet\nmetadata: {name: broken}\nspec: {gvks: 7}\n")
	got, err := Of(parse(t, config), broken, parse(t, syncSet))
	if err == nil || !strings.HasPrefix(err.Error(), "SyncSet broken: ") || strings.Contains(err.Error(), "\n") {
		t.Errorf("got the error %v, want one about the broken SyncSet", err)
	}
	want := []schema.GroupVersionKind{
		{Version: "v1", Kind: "Namespace"},
		{Version: "v1", Kind: "Pod"},
		{Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"},
	}
	if !slices.Equal(got.Kinds, want) {
		t.Errorf("got the kinds %v, want %v", got.Kinds, want)
	}
	for _, c := range []struct {
		process   Process
		namespace string
		want      bool
	}{
		{Webhook, "kube-system", true},
		{Audit, "kube-system", true},
		{Webhook, "builds", false},
		{Audit, "builds", true},
		{Sync, "builds", true},
		{Sync, "", false},
	} {
		if got := got.Excluded(c.process, c.namespace); got != c.want {
			t.Errorf("%s in %q: got excluded %v, want %v", c.process, c.namespace, got, c.want)
		}
	}
	for text, want := range map[string]bool{
		"{apiVersion: v1, kind: Namespace, metadata: {name: builds}}":                   true,
		"{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: builds}}":         true,
		"{apiVersion: v1, kind: Pod, metadata: {name: builds, namespace: web}}":         false,
		"{apiVersion: example.com/v1, kind: Namespace, metadata: {name: builds}}":       false,
		"{apiVersion: v1, kind: Namespace, metadata: {name: builds-2, namespace: web}}": false,
	} {
		if got := got.ExcludedObject(Audit, parse(t, text)); got != want {
			t.Errorf("%s: got excluded %v, want %v", text, got, want)
		}
	}
}
