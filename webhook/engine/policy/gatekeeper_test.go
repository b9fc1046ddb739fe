package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/open-policy-agent/frameworks/constraint/pkg/client"
	"github.com/open-policy-agent/frameworks/constraint/pkg/client/drivers/rego"
	"github.com/open-policy-agent/frameworks/constraint/pkg/client/reviews"
	"github.com/open-policy-agent/gatekeeper/v3/pkg/drivers/k8scel"
	mutationtypes "github.com/open-policy-agent/gatekeeper/v3/pkg/mutation/types"
	"github.com/open-policy-agent/gatekeeper/v3/pkg/target"
	"github.com/open-policy-agent/gatekeeper/v3/pkg/util"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// gatekeeper returns one client of the framework that holds all objects, as Gatekeeper's main sets it up.
func gatekeeper(t testing.TB, s *Set, objects ...*unstructured.Unstructured) *client.Client {
	celDriver, err1 := k8scel.New()
	regoDriver, err2 := rego.New(rego.DisableBuiltins("http.send"), rego.Externs("inventory"))
	c, err := client.NewClient(client.Targets(&target.K8sValidationTarget{}), client.Driver(celDriver), client.Driver(regoDriver), client.EnforcementPoints(points...))
	if err := errors.Join(err1, err2, err); err != nil {
		t.Fatal(err)
	}
	for _, obj := range objects {
		if isTemplate(obj) {
			template, err := s.convert(obj)
			if err == nil {
				_, err = c.AddTemplate(t.Context(), template)
			}
			if err != nil {
				t.Fatal(err)
			}
		} else if _, err := c.AddConstraint(t.Context(), obj.DeepCopy()); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// asGatekeeper makes the review that its webhook or its audit makes.
func asGatekeeper(t testing.TB, r Request) (any, []reviews.ReviewOpt) {
	ns, opts := r.Namespace, []reviews.ReviewOpt{reviews.EnforcementPoint(r.Point)}
	if r.Admission != nil && r.Admission.Kind.Kind == "Namespace" {
		ns = nil
	}
	if ns != nil {
		m, err := util.NamespaceToMap(ns)
		if err != nil {
			t.Fatal(err)
		}
		opts = append(opts, reviews.Namespace(m))
	}
	if r.Admission == nil {
		return &target.AugmentedUnstructured{Object: *r.Object, Namespace: ns, Source: mutationtypes.SourceTypeOriginal}, opts
	}
	req := *r.Admission
	if req.Kind.Kind == "Namespace" {
		req.Namespace = ""
	}
	return &target.AugmentedReview{AdmissionRequest: &req, Namespace: ns, Source: mutationtypes.SourceTypeOriginal, IsAdmission: true}, opts
}

// The verdict on each request is that of one framework client with Gatekeeper's own target and all policies.
func TestAgreesWithGatekeeper(t *testing.T) {
	const seeing = `
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: seen, generation: 1}
spec:
  crd: {spec: {names: {kind: Seen}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package seen
      violation[{"msg": msg}] {
        msg := sprintf("%v %v in %v, ns %v, %v", [input.review.operation, object.get(input.review, "object", {}), object.get(input.review, "namespace", "none"), object.get(input.review, "namespaceObject", "none"), input.parameters])
      }
      violation[{"msg": "b"}] { true }
      violation[{"msg": "a", "details": {"n": 3}}] { true }
`
	const seeingCEL = `
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: seencel, generation: 1}
spec:
  crd: {spec: {names: {kind: SeenCEL}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    code:
    - engine: K8sNativeValidation
      source:
        variables: [{name: ns, expression: "namespaceObject == null ? 'none' : namespaceObject.metadata.name"}]
        validations:
        - expression: "false"
          messageExpression: '"object " + (object == null ? "none" : object.kind) + ", any " + variables.anyObject.kind + ", ns " + variables.ns'
`
	const seenBy = `
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: Seen
metadata: {name: all, generation: 1}
spec: {}
`
	objects := []*unstructured.Unstructured{
		object(t, regoTemplate), object(t, celTemplate), object(t, regoConstraint), object(t, celConstraint), object(t, seeing), object(t, seeingCEL), object(t, seenBy),
	}
	for i, match := range []string{
		`{kinds: [{apiGroups: ["*"], kinds: ["*"]}]}`, `{kinds: [{apiGroups: [""], kinds: [Pod, Secret]}]}`, `{kinds: [{apiGroups: [apps]}]}`,
		`{namespaces: ["sh*"]}`, `{excludedNamespaces: [shop]}`, `{scope: Cluster}`, `{scope: Namespaced}`, `{name: "w*"}`, `{source: Original}`, `{source: Generated}`,
		`{labelSelector: {matchLabels: {app: web}}}`, `{namespaceSelector: {matchLabels: {tier: front}}}`, `{kinds: [{apiGroups: [""], kinds: [Namespace]}], namespaceSelector: {matchLabels: {tier: front}}}`,
	} {
		for _, kind := range []string{"Seen", "SeenCEL"} {
			for j, action := range []string{
				`enforcementAction: deny`, `enforcementAction: other`,
				`enforcementAction: scoped, scopedEnforcementActions: [{action: warn, enforcementPoints: [{name: validation.gatekeeper.sh}]}, {action: deny, enforcementPoints: [{name: audit.gatekeeper.sh}]}, {action: other, enforcementPoints: [{name: "*"}]}]`,
			} {
				objects = append(objects, object(t, seenBy, "kind: Seen", "kind: "+kind, "name: all", fmt.Sprintf("name: m%d-%d", i, j), "spec: {}", "spec: {"+action+", match: "+match+"}"))
			}
		}
	}
	s := newSet(t, Options{}, objects...)
	for _, st := range s.States() {
		if st.Phase != Active {
			t.Fatalf("got %+v", st)
		}
	}
	// With policies of both languages in one client, the CEL driver takes the object of a DELETE away from the Rego
	// driver if it happens to be asked first.
	isCEL := func(obj *unstructured.Unstructured) bool {
		return slices.Contains([]string{"seencel", "ownedpods"}, templateName(obj))
	}
	both := []*client.Client{
		gatekeeper(t, s, slices.DeleteFunc(slices.Clone(objects), isCEL)...),
		gatekeeper(t, s, slices.DeleteFunc(slices.Clone(objects), func(obj *unstructured.Unstructured) bool { return !isCEL(obj) })...),
	}

	front := &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"tier": "front"}}}
	labelled := strings.Replace(pod, `"name": "web"`, `"name": "web", "labels": {"app": "web", "team": "a"}`, 1)
	change := func(f func(*admissionv1.AdmissionRequest)) Request {
		r := create(pod)
		f(r.Admission)
		return r
	}
	in := func(ns *corev1.Namespace, r Request) Request { r.Namespace = ns; return r }
	raw := func(text string) runtime.RawExtension { return runtime.RawExtension{Raw: []byte(text)} }
	namespace := raw(`{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"tier": "front"}}}`)
	for name, r := range map[string]Request{
		"create":             in(front, create(pod)),
		"create with labels": in(front, create(labelled)),
		"namespace unknown":  create(pod),
		"update":             in(front, change(func(r *admissionv1.AdmissionRequest) { r.Operation, r.OldObject = admissionv1.Update, raw(labelled) })),
		"delete": in(front, change(func(r *admissionv1.AdmissionRequest) {
			r.Operation, r.OldObject, r.Object = admissionv1.Delete, r.Object, raw("")
			r.Object.Raw = nil
		})),
		"connect": in(front, change(func(r *admissionv1.AdmissionRequest) {
			r.Operation, r.Object = admissionv1.Connect, raw(`{"apiVersion": "v1", "kind": "PodExecOptions"}`)
		})),
		"no object": in(front, change(func(r *admissionv1.AdmissionRequest) { r.Operation, r.Object.Raw = admissionv1.Connect, nil })),
		"another group": in(front, change(func(r *admissionv1.AdmissionRequest) {
			r.Kind = metav1.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
			r.Object = raw(`{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"}}`)
		})),
		"namespace": in(front, change(func(r *admissionv1.AdmissionRequest) {
			r.Kind.Kind, r.Namespace, r.Object = "Namespace", "shop", namespace
		})),
		"cluster-scoped": change(func(r *admissionv1.AdmissionRequest) {
			r.Kind.Kind, r.Namespace, r.Object = "Node", "", raw(`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}`)
		}),
		"audited":                {Object: object(t, pod), Namespace: front, Point: util.AuditEnforcementPoint},
		"audited cluster-scoped": {Object: object(t, string(namespace.Raw)), Point: util.AuditEnforcementPoint},
	} {
		t.Run(name, func(t *testing.T) {
			review, opts := asGatekeeper(t, r)
			var want, got, order []string
			for _, c := range both {
				answer, err := c.Review(t.Context(), review, opts...)
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range answer.Results() {
					v := violationOf(&snapshot{}, r)
					if len(v.Actions) > 0 {
						want = append(want, fmt.Sprint(v.Action, v.Actions, v.Constraint.GetKind(), v.Constraint.GetName(), v.Message, v.Details))
					}
				}
			}
			v := s.Review(t.Context(), r)
			for _, v := range v.Violations {
				if len(v.Actions) > 0 {
					got = append(got, fmt.Sprint(v.Action, v.Actions, v.Constraint.GetKind(), v.Constraint.GetName(), v.Message, v.Details))
					order = append(order, v.Action+"\x00"+v.Message)
				}
			}
			slices.Sort(want) // which Gatekeeper leaves open where action and message are equal
			slices.Sort(got)
			if !slices.Equal(got, want) || len(v.Failures) > 0 || len(got) == 0 {
				t.Errorf("got\n%s\nand the failures %v, want\n%s", strings.Join(got, "\n"), v.Failures, strings.Join(want, "\n"))
			}
			if !slices.IsSorted(order) {
				t.Errorf("got the order %q", order)
			}
		})
	}
}
