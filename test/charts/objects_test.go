package charts

import (
	"encoding/json"
	"os"
	"path/filepath"
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
		"rules and dashboard":               "ConfigMap ConfigMap PrometheusRule Service StatefulSet",
		"network policy":                    "ConfigMap NetworkPolicy Service StatefulSet",
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

// Rules and dashboard are those of manifests/monitoring.
func TestMonitoring(t *testing.T) {
	r := render(t, chart(t), usual, tcp, `
fullnameOverride: a
monitoring: {rules: true, dashboard: true}
`)
	var rules, dashboard, rendered any
	read := func(name string, decode func([]byte, any) error, v any) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(chart(t), "../../manifests/monitoring", name))
		if err == nil {
			err = decode(text, v)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	read("rules.yaml", yaml.Unmarshal, &rules)
	read("dashboard.json", json.Unmarshal, &dashboard)
	if got := r.get(t, "PrometheusRule", "spec"); !reflect.DeepEqual(got, rules) {
		t.Error("the rules are others")
	}
	for _, o := range r.objects {
		data, _ := o["data"].(object)
		if text, ok := data["docket.json"].(string); ok {
			if err := json.Unmarshal([]byte(text), &rendered); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !reflect.DeepEqual(rendered, dashboard) {
		t.Error("the dashboard is another")
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
