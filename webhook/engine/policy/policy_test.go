package policy

import (
	"strings"
	"testing"

	"github.com/open-policy-agent/gatekeeper/v3/pkg/util"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// object reads YAML, with pairs of texts to replace in it.
func object(t testing.TB, text string, replace ...string) *unstructured.Unstructured {
	t.Helper()
	var m map[string]any
	if err := yaml.Unmarshal([]byte(strings.NewReplacer(replace...).Replace(text)), &m); err != nil {
		t.Fatal(err)
	}
	// As from JSON: whole numbers are int64.
	obj := &unstructured.Unstructured{Object: m}
	data, err := obj.MarshalJSON()
	if err == nil {
		err = obj.UnmarshalJSON(data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

// regoTemplate is violated by objects without one of the labels.
const regoTemplate = `
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: neededlabels, generation: 1, uid: t1}
spec:
  crd:
    spec:
      names: {kind: NeededLabels}
      validation:
        openAPIV3Schema:
          type: object
          properties: {labels: {type: array, items: {type: string}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package neededlabels
      violation[{"msg": msg, "details": {"missing": label}}] {
        label := input.parameters.labels[_]
        not input.review.object.metadata.labels[label]
        msg := sprintf("label %v is needed", [label])
      }
`

const regoConstraint = `
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: NeededLabels
metadata: {name: team, generation: 1, uid: c1}
spec:
  match: {kinds: [{apiGroups: [""], kinds: [Pod]}]}
  parameters: {labels: [team]}
`

// celTemplate is violated by pods that do not say who they are for.
const celTemplate = `
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: ownedpods, generation: 1, uid: t2}
spec:
  crd: {spec: {names: {kind: OwnedPods}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    code:
    - engine: K8sNativeValidation
      source:
        validations:
        - expression: has(object.metadata.annotations) && "owner" in object.metadata.annotations
          message: an owner is needed
`

const celConstraint = `
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: OwnedPods
metadata: {name: owned, generation: 1, uid: c2}
spec: {enforcementAction: warn, match: {kinds: [{apiGroups: [""], kinds: [Pod]}]}}
`

const pod = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "shop"}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}`

func create(raw string) Request {
	return Request{Point: util.WebhookEnforcementPoint, Admission: &admissionv1.AdmissionRequest{
		UID: "r1", Operation: admissionv1.Create, Name: "web", Namespace: "shop",
		Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
		Object: runtime.RawExtension{Raw: []byte(raw)},
	}}
}

func newSet(t testing.TB, opt Options, objects ...*unstructured.Unstructured) *Set {
	t.Helper()
	s, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.todo.ShutDown)
	for _, obj := range objects {
		s.Put(t.Context(), obj)
	}
	return s
}

func TestReview(t *testing.T) {
	s := newSet(t, Options{}, object(t, regoTemplate), object(t, regoConstraint), object(t, celConstraint), object(t, celTemplate))
	for _, st := range s.States() {
		if st.Phase != Active || st.Observed != 1 || st.Enforced != 1 || st.Since.IsZero() {
			t.Errorf("got the state %+v, want it Active", st)
		}
	}
	v := s.Review(t.Context(), create(pod))
	var got []string
	for _, v := range v.Violations {
		got = append(got, v.Action+" "+v.Template+" "+v.Constraint.GetName()+" "+v.Message)
	}
	want := "deny neededlabels team label team is needed|warn ownedpods owned an owner is needed"
	if strings.Join(got, "|") != want || len(v.Failures) > 0 {
		t.Errorf("got %q and the failures %v, want %s", got, v.Failures, want)
	}
	r := create(pod)
	r.Skip = map[string]bool{"neededlabels": true}
	wantVerdict(t, s, r, "an owner is needed")
}
