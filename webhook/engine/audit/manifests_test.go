package audit

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/docket-export/docket/decision"
)

// manifests are files of the test, by name.
func manifests(t *testing.T, files map[string]string) *Manifests {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return ReadManifests(dir)
}

func TestManifests(t *testing.T) {
	m := manifests(t, map[string]string{"a.yaml": `
{apiVersion: v1, kind: Pod, metadata: {name: cart, namespace: shop}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {team: a}}}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Pod, metadata: {name: db, namespace: other}}
- {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: all}}
`, "b.yaml": `
{apiVersion: v1, kind: Pod, metadata: {name: cart, namespace: shop}}
---
{apiVersion: v1, kind: Pod, metadata: {generateName: job-, namespace: shop}}
`, "kustomization.yaml": "resources: [a.yaml, b.yaml]"})
	p := &policies{}
	var names []string
	report, err := Run(t.Context(), Config{Lister: m, Policies: p, ChunkSize: 1, Found: func(r *decision.Record) { names = append(names, r.ResourceName) }})
	if err != nil || !report.Complete || !slices.Equal(names, []string{"cart", "db", "cart", "job-", "all"}) || report.Objects != 6 {
		t.Errorf("got violations of %v, %+v, %v", names, report, err)
	}
	labels := map[string]map[string]string{}
	for _, r := range p.asked {
		if r.Object.GetKind() == "Namespace" && r.Object.GetLabels()["kubernetes.io/metadata.name"] != "" {
			t.Error("an object was changed")
		}
		if r.Namespace != nil {
			labels[r.Namespace.Name] = r.Namespace.Labels
		}
	}
	if shop, other := labels["shop"], labels["other"]; shop["team"] != "a" || shop["kubernetes.io/metadata.name"] != "shop" || other["kubernetes.io/metadata.name"] != "other" {
		t.Errorf("got namespaces with the labels %v", labels)
	}
}

// What could not be read may be what violates.
func TestManifestsUnread(t *testing.T) {
	const pod = "{apiVersion: v1, kind: Pod, metadata: {name: cart}}"
	for name, files := range map[string]map[string]string{
		"a file beside":               {"a.yaml": pod, "b.yaml": "a: 1"},
		"nothing else":                {"b.yaml": "a: 1"},
		"a bad list":                  {"b.yaml": `{apiVersion: v1, kind: List, items: ["no object"]}`},
		"a bad namespace":             {"b.yaml": `{apiVersion: v1, kind: Namespace, metadata: {name: {"x": 1}}}`},
		"a namespace with bad labels": {"b.yaml": `{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {x: 1}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			report, err := Run(t.Context(), Config{Lister: manifests(t, files), Policies: &policies{}})
			if err != nil || report.Complete || report.Reason != decision.NotListed || report.Detail == "" {
				t.Errorf("got %+v, %v", report, err)
			}
		})
	}
	if report, err := Run(t.Context(), Config{Lister: ReadManifests(t.TempDir()), Policies: &policies{}}); err != nil || !report.Complete || report.Objects != 0 {
		t.Errorf("got %+v, %v for no manifests", report, err)
	}
}
