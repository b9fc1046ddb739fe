package cluster

import (
	"context"
	"maps"
	"strings"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"

	"github.com/docket-export/docket/webhook/engine/policy"
)

// policyEvent handles what happens to templates, to constraints, and to what is refused.
func (k *Cluster) policyEvent(ctx context.Context, e event) {
	if e.change == synced || e.old != nil && sameRevision(e.old, e.object) {
		return
	}
	// One that is being deleted is gone, for Gatekeeper too.
	gone := e.change == deleted || e.object.GetDeletionTimestamp() != nil
	switch {
	case e.kind.gvk == templateKind && gone:
		k.forgetTemplate(e.object)
	case e.kind.gvk == templateKind:
		k.templates.put(e.object)
	}
	if gone {
		k.config.Policies.Delete(e.object)
	} else {
		k.config.Policies.Put(ctx, e.object)
	}
}

// sameRevision says that of an object only its status has changed, which each pod has written.
func sameRevision(a, b *unstructured.Unstructured) bool {
	return a.GetGeneration() == b.GetGeneration() && a.GetDeletionTimestamp().Equal(b.GetDeletionTimestamp()) &&
		maps.Equal(a.GetLabels(), b.GetLabels()) && maps.Equal(a.GetAnnotations(), b.GetAnnotations())
}

// templates are those that there are, and those among them that need a CRD.
type templates struct {
	queue workqueue.TypedRateLimitingInterface[string] // names

	mu     sync.Mutex
	byName map[string]*template
}

type template struct {
	object  *unstructured.Unstructured
	tried   bool                                      // its constraints are watched, once their CRD is there
	defined *apiextensionsv1.CustomResourceDefinition // what its CRD was made to be last
}

func (t *templates) init() {
	t.byName = map[string]*template{}
	// A CRD is established a tenth of a second after it was made, or takes longer.
	limit := workqueue.NewTypedItemExponentialFailureRateLimiter[string](100*time.Millisecond, time.Minute)
	t.queue = workqueue.NewTypedRateLimitingQueue(limit)
}

func (t *templates) put(object *unstructured.Unstructured) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.byName[object.GetName()]; known != nil {
		known.object = object
	} else {
		t.byName[object.GetName()] = &template{object: object}
	}
	t.queue.Add(object.GetName())
}

// redefine has the CRD of a kind of constraints looked at, which somebody may have deleted.
func (t *templates) redefine(gvk schema.GroupVersionKind) {
	name := strings.ToLower(gvk.Kind)
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.byName[name]; known != nil && known.defined != nil && gvk.Group == policy.ConstraintsGroup {
		known.defined = nil
		t.queue.Add(name)
	}
}

// untried returns the templates whose constraints are not watched yet.
func (t *templates) untried() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var names []string
	for name, known := range t.byName {
		if !known.tried {
			names = append(names, name)
		}
	}
	return names
}

// constraintKind is the kind of a template's constraints; ok says that it can be one.
func constraintKind(object *unstructured.Unstructured) (gvk schema.GroupVersionKind, ok bool) {
	kind, _, _ := unstructured.NestedString(object.Object, "spec", "crd", "spec", "names", "kind")
	gvk = schema.GroupVersionKind{Group: policy.ConstraintsGroup, Version: "v1beta1", Kind: kind}
	return gvk, strings.ToLower(kind) == object.GetName()
}

// forgetTemplate ends the watch of a template's constraints, so that nobody will say that
// they are gone.
func (k *Cluster) forgetTemplate(object *unstructured.Unstructured) {
	k.templates.mu.Lock()
	known := k.templates.byName[object.GetName()]
	if known == nil || known.object.GetUID() != object.GetUID() {
		k.templates.mu.Unlock()
		return
	}
	delete(k.templates.byName, object.GetName())
	gvk, ok := constraintKind(known.object)
	if ok {
		k.policies.remove(gvk)
	}
	k.templates.mu.Unlock()
	for _, state := range k.config.Policies.States() {
		if ok && state.Kind == gvk.Kind {
			constraint := &unstructured.Unstructured{}
			constraint.SetGroupVersionKind(gvk)
			constraint.SetName(state.Name)
			k.config.Policies.Delete(constraint)
		}
	}
}

// watchConstraints has the constraints of a template watched, if it is the newest of its name.
func (k *Cluster) watchConstraints(object *unstructured.Unstructured, defined *apiextensionsv1.CustomResourceDefinition) {
	k.templates.mu.Lock()
	defer k.templates.mu.Unlock()
	known := k.templates.byName[object.GetName()]
	if known == nil || known.object.GetUID() != object.GetUID() {
		return
	}
	if gvk, ok := constraintKind(object); ok {
		k.policies.add(gvk)
	}
	known.tried, known.defined = true, defined
}
