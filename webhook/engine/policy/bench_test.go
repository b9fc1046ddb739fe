package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/open-policy-agent/frameworks/constraint/pkg/client"
	"github.com/open-policy-agent/frameworks/constraint/pkg/client/drivers/rego"
	"github.com/open-policy-agent/frameworks/constraint/pkg/client/reviews"
	"github.com/open-policy-agent/gatekeeper/v3/pkg/drivers/k8scel"
	mutationtypes "github.com/open-policy-agent/gatekeeper/v3/pkg/mutation/types"
	"github.com/open-policy-agent/gatekeeper/v3/pkg/target"
	"github.com/open-policy-agent/gatekeeper/v3/pkg/util"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ten are five policies in Rego and five in CEL, all of which match pods.
func ten(t testing.TB) (templates, constraints []*unstructured.Unstructured) {
	for i := range 5 {
		n := fmt.Sprint(i)
		templates = append(templates, object(t, regoTemplate, "neededlabels", "neededlabels"+n, "NeededLabels", "NeededLabels"+n))
		constraints = append(constraints, object(t, regoConstraint, "NeededLabels", "NeededLabels"+n, "labels: [team]", "labels: [app]"))
		templates = append(templates, object(t, celTemplate, "ownedpods", "ownedpods"+n, "OwnedPods", "OwnedPods"+n))
		constraints = append(constraints, object(t, celConstraint, "OwnedPods", "OwnedPods"+n))
	}
	return templates, constraints
}

// realPod has the size of the pods that an API server sends.
func realPod(t testing.TB) string {
	obj := object(t, pod)
	obj.SetLabels(map[string]string{"app": "web"})
	obj.SetAnnotations(map[string]string{"owner": "shop"})
	var fields []any
	for i := range 30 {
		fields = append(fields, map[string]any{"manager": fmt.Sprint("m", i), "operation": "Update", "fieldsV1": map[string]any{"f:metadata": map[string]any{"f:labels": strings.Repeat("x", 20)}}})
	}
	obj.Object["metadata"].(map[string]any)["managedFields"] = fields
	containers := []any{}
	for i := range 3 {
		containers = append(containers, map[string]any{"name": fmt.Sprint("c", i), "image": "nginx:1.29", "env": []any{map[string]any{"name": "A", "value": "b"}, map[string]any{"name": "B", "value": "c"}}, "resources": map[string]any{"limits": map[string]any{"cpu": "1", "memory": "1Gi"}}})
	}
	obj.Object["spec"].(map[string]any)["containers"] = containers
	text, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// processor reports what a step costs the processor, whoever else uses it.
func processor(b *testing.B) (done func()) {
	used := func() int64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return u.Utime.Nano() + u.Stime.Nano()
	}
	began := used()
	return func() { b.ReportMetric(float64(used()-began)/float64(b.N), "cpu-ns/op") }
}

// BenchmarkReview compares what isolation costs: a Set, and one client of the framework that holds all ten policies.
func BenchmarkReview(b *testing.B) {
	templates, constraints := ten(b)
	s := newSet(b, Options{}, append(templates, constraints...)...)
	// As Gatekeeper sets it up, with its target.
	celDriver, err1 := k8scel.New()
	regoDriver, err2 := rego.New()
	one, err := client.NewClient(client.Targets(&target.K8sValidationTarget{}), client.Driver(celDriver), client.Driver(regoDriver), client.EnforcementPoints(points...))
	if err = errors.Join(err1, err2, err); err != nil {
		b.Fatal(err)
	}
	for _, obj := range templates {
		t, err := s.convert(obj)
		if err == nil {
			_, err = one.AddTemplate(b.Context(), t)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	for _, obj := range constraints {
		if _, err := one.AddConstraint(b.Context(), obj.DeepCopy()); err != nil {
			b.Fatal(err)
		}
	}
	r := create(realPod(b))
	r.Namespace = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"a": "b"}}}
	b.Run("set", func(b *testing.B) {
		b.ReportAllocs()
		defer processor(b)()
		for b.Loop() {
			if v := s.Review(b.Context(), r); len(v.Violations)+len(v.Failures) > 0 {
				b.Fatal(v)
			}
		}
	})
	b.Run("oneclient", func(b *testing.B) {
		b.ReportAllocs()
		defer processor(b)()
		for b.Loop() {
			review := &target.AugmentedReview{AdmissionRequest: r.Admission, Namespace: r.Namespace, Source: mutationtypes.SourceTypeOriginal, IsAdmission: true}
			ns, err := util.NamespaceToMap(r.Namespace)
			if err != nil {
				b.Fatal(err)
			}
			if answer, err := one.Review(b.Context(), review, reviews.EnforcementPoint(r.Point), reviews.Namespace(ns)); err != nil || len(answer.Results()) > 0 {
				b.Fatal(answer, err)
			}
		}
	})
	b.Run("put", func(b *testing.B) {
		for b.Loop() {
			s.Put(b.Context(), constraints[0])
		}
	})
	b.Run("putcel", func(b *testing.B) {
		for b.Loop() {
			s.Put(b.Context(), constraints[1])
		}
	})
}
