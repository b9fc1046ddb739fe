package charts

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// Each object is there when values ask for it, and not else: no Role among them, and no token in a pod.
func TestObjects(t *testing.T) {
	for name, want := range map[string]string{
		"statefulset":                       "ConfigMap Service StatefulSet",
		"statefulset with a certificate":    "Certificate ConfigMap Service StatefulSet",
		"statefulset with a PodMonitor":     "ConfigMap PodMonitor Service StatefulSet",
		"statefulset with a ServiceMonitor": "ConfigMap Service ServiceMonitor StatefulSet",
		"network policy with peers":         "ConfigMap NetworkPolicy Service StatefulSet",
		"tap":                               "ConfigMap Deployment Service",
		"tap with replicas":                 "ConfigMap Deployment PodDisruptionBudget Service",
		"sidecar":                           "ConfigMap",
		"sidecar with a PodMonitor":         "Certificate ConfigMap PodMonitor",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var kinds []string
			r := render(t, chart(t), append([]string{usual}, accepted[name]...)...)
			for _, o := range r.objects {
				kinds = append(kinds, o["kind"].(string))
			}
			for _, workload := range []string{"StatefulSet", "Deployment"} {
				if slices.Contains(kinds, workload) && r.get(t, workload, "spec", "template", "spec", "automountServiceAccountToken") != false {
					t.Errorf("the pods of the %s have a token", workload)
				}
			}
			slices.Sort(kinds)
			if got := strings.Join(kinds, " "); got != want {
				t.Errorf("got %s\nwant %s", got, want)
			}
		})
	}
}

// The container of a sidecar is the one that docket kubernetes sidecar writes for the same
// configuration.
func TestSidecar(t *testing.T) {
	parent := engine(t)
	for slot, flags := range map[string][]string{"initContainer": nil, "container": {"--plain"}} {
		r := render(t, parent, below("docket", usual), "slot: "+slot, below("docket", "sidecar: {blockingStrict: true}"))
		file := write(t, "docket.yaml", r.get(t, "ConfigMap", "data", "docket.yaml").(string))
		var want object
		if err := yaml.Unmarshal(docket(t, append([]string{
			"kubernetes", "sidecar", "-f", file, "--image", "registry.example.com/docket:1.0.0", "--config-map", "policy-docket", "--blocking-strict",
		}, flags...)...), &want); err != nil {
			t.Fatal(err)
		}
		wanted := want[slot+"s"].([]any)[0].(object)
		containers := r.get(t, "Deployment", "spec", "template", "spec", slot+"s").([]any)
		got := containers[len(containers)-1].(object)
		delete(got, "imagePullPolicy")
		for _, c := range []object{got, wanted} {
			delete(c["resources"].(object), "limits") // the chart has a value for every configuration
		}
		if !reflect.DeepEqual(got, wanted) {
			t.Errorf("%s: got %v\nwant %v", slot, got, wanted)
		}
	}
}

// The instance is the pod, whatever its address.
func TestInstance(t *testing.T) {
	for kind, endpoints := range map[string]string{"PodMonitor": "podMetricsEndpoints", "ServiceMonitor": "endpoints"} {
		r := render(t, chart(t), append([]string{usual}, accepted["statefulset with a "+kind]...)...)
		relabelings := r.get(t, kind, "spec", endpoints, 0, "relabelings").([]any)
		want := object{
			"sourceLabels": []any{"__meta_kubernetes_namespace", "__meta_kubernetes_pod_name"}, "separator": "/", "targetLabel": "instance",
		}
		if !slices.ContainsFunc(relabelings, func(r any) bool { return reflect.DeepEqual(r, want) }) {
			t.Errorf("%s: got %v, want %v among them", kind, relabelings, want)
		}
	}
}
