package podstatus_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/docket-export/docket/webhook/engine/podstatus"
	"github.com/docket-export/docket/webhook/engine/policy"
)

const namespace = "docket-webhook"

var (
	podResource        = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	templateResource   = schema.GroupVersionResource{Group: "templates.gatekeeper.sh", Version: "v1", Resource: "constrainttemplates"}
	constraintResource = schema.GroupVersionResource{Group: "constraints.gatekeeper.sh", Version: "v1beta1", Resource: "k8srequiredlabels"}

	template   = policy.ID{Kind: "ConstraintTemplate", Name: "k8srequiredlabels"}
	constraint = policy.ID{Kind: "K8sRequiredLabels", Name: "ns-must-have-gk"}
)

// api is a cluster of objects. It counts the requests that change one.
type api struct {
	*dynamicfake.FakeDynamicClient
	t *testing.T

	mu       sync.Mutex
	requests []string                          // "patch constrainttemplates/status k8srequiredlabels"
	fail     func(verb, resource string) error // nil: no request fails
}

func newAPI(t *testing.T) *api {
	t.Helper()
	a := &api{t: t}
	a.FakeDynamicClient = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		podResource: "PodList", podstatus.Resource: "PolicyPodStatusList",
		templateResource: "ConstraintTemplateList", constraintResource: "K8sRequiredLabelsList",
	})
	for _, verb := range []string{"create", "patch", "update", "delete"} {
		a.PrependReactor(verb, "*", a.count)
	}
	return a
}

func (a *api) count(action clienttesting.Action) (bool, runtime.Object, error) {
	resource := action.GetResource().Resource
	if action.GetSubresource() != "" {
		resource += "/" + action.GetSubresource()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests = append(a.requests, action.GetVerb()+" "+resource)
	if a.fail == nil {
		return false, nil, nil
	}
	err := a.fail(action.GetVerb(), action.GetResource().Resource)
	return err != nil, nil, err
}

// put has the object in the cluster, whatever was there, without a request.
func (a *api) put(resource schema.GroupVersionResource, o *unstructured.Unstructured) {
	a.t.Helper()
	err := a.Tracker().Update(resource, o, o.GetNamespace())
	if err != nil {
		err = a.Tracker().Create(resource, o, o.GetNamespace())
	}
	if err != nil {
		a.t.Fatal(err)
	}
}

func (a *api) drop(resource schema.GroupVersionResource, namespace, name string) {
	a.t.Helper()
	if err := a.Tracker().Delete(resource, namespace, name); err != nil {
		a.t.Fatal(err)
	}
}

func (a *api) get(resource schema.GroupVersionResource, namespace, name string) *unstructured.Unstructured {
	a.t.Helper()
	o, err := a.Tracker().Get(resource, namespace, name)
	if err != nil {
		a.t.Fatal(err)
	}
	return o.(*unstructured.Unstructured)
}

// taken returns the requests since it was last called, sorted, each with its number: "3 patch policypodstatuses".
func (a *api) taken() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	numbers := map[string]int{}
	for _, r := range a.requests {
		numbers[r]++
	}
	a.requests = nil
	all := []string{}
	for r, n := range numbers {
		all = append(all, fmt.Sprint(n, " ", r))
	}
	slices.Sort(all)
	return all
}

// number is that of the requests since taken was last called.
func (a *api) number() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.requests)
}

// failing sets what fails from now on.
func (a *api) failing(fail func(verb, resource string) error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fail = fail
}

// putPod has a pod in the cluster.
func (a *api) putPod(name string, mutate ...func(*corev1.Pod)) {
	a.t.Helper()
	pod := corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: uid(name), Labels: map[string]string{podstatus.Label: ""}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, m := range mutate {
		m(&pod)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&pod)
	if err != nil {
		a.t.Fatal(err)
	}
	a.put(podResource, &unstructured.Unstructured{Object: content})
}

// dropPod has the pod gone, and its status with it, as the garbage collector does.
func (a *api) dropPod(name string) {
	a.t.Helper()
	a.drop(podResource, namespace, name)
	a.drop(podstatus.Resource, namespace, name)
}

// putPolicies has the template and the constraint in the cluster, in a generation.
func (a *api) putPolicies(generation int64) {
	a.t.Helper()
	for resource, id := range map[schema.GroupVersionResource]policy.ID{templateResource: template, constraintResource: constraint} {
		o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
		if was, err := a.Tracker().Get(resource, "", id.Name); err == nil {
			o = was.DeepCopyObject().(*unstructured.Unstructured)
		}
		o.SetAPIVersion(resource.GroupVersion().String())
		o.SetKind(id.Kind)
		o.SetName(id.Name)
		o.SetUID(uid(id.Name))
		o.SetGeneration(generation)
		if id == template {
			if err := unstructured.SetNestedField(o.Object, constraint.Kind, "spec", "crd", "spec", "names", "kind"); err != nil {
				a.t.Fatal(err)
			}
		}
		a.put(resource, o)
	}
}

// status is what the aggregator has written: "Active: pods 3, enforcing 3 [a b c]".
func (a *api) status(resource schema.GroupVersionResource, name string) string {
	a.t.Helper()
	o := a.get(resource, "", name).Object
	byPod, _, _ := unstructured.NestedSlice(o, "status", "byPod")
	docket, _, _ := unstructured.NestedMap(o, "status", "docket")
	ids := []string{}
	for _, e := range byPod {
		ids = append(ids, fmt.Sprint(e.(map[string]any)["id"]))
	}
	return strings.TrimSpace(fmt.Sprint(docket["phase"], " ", docket["reason"])) +
		fmt.Sprintf(": pods %v, enforcing %v %v", docket["pods"], docket["enforcing"], ids)
}

func uid(name string) types.UID { return types.UID("uid of " + name) }

// engine is the policy.Set of a pod.
type engine struct {
	mu     sync.Mutex
	states []policy.State
}

func (e *engine) States() []policy.State {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.states)
}

// set has the template and the constraint in a generation of which one is enforced.
func (e *engine) set(observed, enforced int64, phase policy.Phase, reason string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.states = nil
	for _, id := range []policy.ID{template, constraint} {
		e.states = append(e.states, policy.State{
			ID: id, UID: uid(id.Name), Phase: phase, Reason: reason, Message: "of " + reason,
			Observed: observed, Enforced: enforced, Since: time.Now(),
		})
	}
}

// replica is a pod with its engine and the Writer in it.
type replica struct {
	engine
	*podstatus.Writer
	stop func() // the process, and waits for its end
}

// start starts a pod that enforces the policies in their first generation.
func (a *api) start(name string, log *slog.Logger) *replica {
	a.t.Helper()
	r := &replica{Writer: podstatus.NewWriter(podstatus.WriterConfig{
		Client: a, Namespace: namespace, Pod: name, UID: uid(name), Operations: []string{"webhook"}, Log: log,
	})}
	r.set(1, 1, policy.Active, "")
	r.stop = run(a.t, func(ctx context.Context) error { return r.Run(ctx, r) })
	return r
}

// run runs f in the background until the function is called that it returns, or the test ends.
func run(t *testing.T, f func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("got %v at the end, want nil", err)
		}
	})
}

// later passes time until a burst of changes, and all that follows from it, has been written.
func later() {
	time.Sleep(time.Minute)
	synctest.Wait()
}

func eq(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
