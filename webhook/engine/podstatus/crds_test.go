package podstatus_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/docket-export/docket/webhook/engine/podstatus"
)

// The CRDs of manifests/docket-webhook are those of the frame, except for what Gatekeeper has no use for.
func TestKindsOfPolicies(t *testing.T) {
	ours := crds(t, filepath.Join("..", "..", "..", "manifests", "docket-webhook", "crds.yaml"))
	frame := module(t, "github.com/open-policy-agent/frameworks/constraint")
	gatekeeper := module(t, "github.com/open-policy-agent/gatekeeper/v3")
	for name, file := range map[string]string{
		"constrainttemplates.templates.gatekeeper.sh": filepath.Join(frame, "deploy", "crds.yaml"),
		"syncsets.syncset.gatekeeper.sh":              filepath.Join(gatekeeper, "config", "crd", "bases", "syncset.gatekeeper.sh_syncsets.yaml"),
	} {
		theirs := crds(t, file)[name]
		if theirs == nil || ours[name] == nil {
			t.Fatalf("there is no %s", name)
		}
		got, want := bare(ours[name]["spec"]), bare(theirs["spec"])
		if name == "constrainttemplates.templates.gatekeeper.sh" {
			for _, v := range got.(map[string]any)["versions"].([]any) {
				status := at(v, "schema", "openAPIV3Schema", "properties", "status", "properties")
				if status["docket"] == nil {
					t.Errorf("%s: %v: the status has no docket", name, v.(map[string]any)["name"])
				}
				delete(status, "docket")
				delete(v.(map[string]any), "additionalPrinterColumns")
			}
		}
		sortVersions(got)
		sortVersions(want)
		if !reflect.DeepEqual(got, want) {
			a, _ := yaml.Marshal(got)
			b, _ := yaml.Marshal(want)
			t.Errorf("%s: got\n%s\nwant\n%s", name, a, b)
		}
	}
}

// Each field of a PolicyPodStatus is in its CRD: the API server would drop it.
func TestFieldsOfStatus(t *testing.T) {
	crd := crds(t, filepath.Join("..", "..", "..", "manifests", "docket-webhook", "crds.yaml"))["policypodstatuses.status.docket.dev"]
	versions, _ := crd["spec"].(map[string]any)["versions"].([]any)
	schema := at(versions[0], "schema", "openAPIV3Schema", "properties", "status", "properties")
	policies := at(schema["policies"], "items", "properties")
	for what, pair := range map[string][2]any{
		"status":          {reflect.TypeFor[podstatus.Status](), schema},
		"status.policies": {reflect.TypeFor[podstatus.Policy](), policies},
		"errors":          {reflect.TypeFor[podstatus.Error](), at(policies["errors"], "items", "properties")},
	} {
		fields, has := pair[0].(reflect.Type), pair[1].(map[string]any)
		if fields.NumField() != len(has) {
			t.Errorf("%s: got %d fields, want %d", what, len(has), fields.NumField())
		}
		for i := range fields.NumField() {
			if name, _, _ := strings.Cut(fields.Field(i).Tag.Get("json"), ","); has[name] == nil {
				t.Errorf("%s: the CRD has no %s", what, name)
			}
		}
	}
}

// module returns the directory of a module that this one requires.
func module(t *testing.T, path string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// crds returns the objects in a file by name.
func crds(t *testing.T, file string) map[string]map[string]any {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]map[string]any{}
	for doc := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var o map[string]any
		if err := yaml.Unmarshal(doc, &o); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if metadata, ok := o["metadata"].(map[string]any); ok {
			all[fmt.Sprint(metadata["name"])] = o
		}
	}
	return all
}

// bare returns v without descriptions, and without the properties that every object has.
func bare(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = bare(v[i])
		}
	case map[string]any:
		for key, value := range v {
			if _, text := value.(string); key == "description" && text {
				delete(v, key)
				continue
			}
			v[key] = bare(value)
		}
		if properties := at(v, "openAPIV3Schema", "properties"); properties != nil {
			delete(properties, "apiVersion")
			delete(properties, "kind")
			delete(properties, "metadata")
		}
	}
	return v
}

// at returns the object at a path in v; nil: there is none.
func at(v any, path ...string) map[string]any {
	o, _ := v.(map[string]any)
	for _, key := range path {
		o, _ = o[key].(map[string]any)
	}
	return o
}

func sortVersions(spec any) {
	versions := spec.(map[string]any)["versions"].([]any)
	byName := map[string]any{}
	for _, v := range versions {
		byName[fmt.Sprint(v.(map[string]any)["name"])] = v
	}
	spec.(map[string]any)["versions"] = byName
}
