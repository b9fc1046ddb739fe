package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// requestTimeout is how long the API server may take for a request that nobody waits for.
const requestTimeout = 30 * time.Second

// patience is after how many attempts, 25 seconds, a CRD that is not established holds up
// nothing else: one that is stuck must not keep a new pod from serving all other policies.
const patience = 8

// errLookAgain says that a CRD is not yet as it should be, and that nothing went wrong.
var errLookAgain = errors.New("not established yet")

// defineConstraints makes the CRDs of templates, until ctx is done.
func (k *Cluster) defineConstraints(ctx context.Context) {
	queue := k.templates.queue
	defer context.AfterFunc(ctx, queue.ShutDown)()
	for {
		name, ended := queue.Get()
		if ended {
			return
		}
		if k.define(ctx, name) {
			queue.AddRateLimited(name)
		} else {
			queue.Forget(name)
		}
		queue.Done(name)
	}
}

// define has the CRD of a template be as it should. It returns whether to try again.
func (k *Cluster) define(ctx context.Context, name string) (again bool) {
	k.templates.mu.Lock()
	known := k.templates.byName[name]
	if known == nil {
		k.templates.mu.Unlock()
		return false
	}
	object, tried, defined := known.object, known.tried, known.defined
	k.templates.mu.Unlock()

	want, err := k.config.Policies.CRD(object)
	if err != nil || k.config.ReadOnly {
		// Of an error its State tells. The constraints are watched for a revision that still serves.
		k.watchConstraints(object, defined)
		return false
	}
	yes := true
	want.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), Name: name, UID: object.GetUID(), Controller: &yes,
	}}
	if equality.Semantic.DeepEqual(want, defined) {
		return false
	}
	switch err := k.apply(ctx, want); {
	case err == nil:
		k.watchConstraints(object, want)
		return false
	case errors.Is(err, errLookAgain):
		if !tried && k.templates.queue.NumRequeues(name) >= patience {
			k.log.Error("the kind of constraints is still not established: ready without it; its CRD says why", "template", name, "crd", want.Name)
			k.watchConstraints(object, defined)
		}
		return true
	case ctx.Err() != nil:
		return false
	default:
		k.log.Error("cannot define the kind of constraints; trying again", "template", name, "error", err)
		k.watchConstraints(object, defined) // there may be some
		return true
	}
}

// apply makes the CRD, or changes it, unless it is as wanted. All pods try it at once: of
// their writes the API server takes one, and the others look again and find it done.
func (k *Cluster) apply(ctx context.Context, want *apiextensionsv1.CustomResourceDefinition) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	crds := k.client.Resource(definitions)
	found, err := crds.Get(ctx, want.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = crds.Create(ctx, definition(want), metav1.CreateOptions{})
		if err == nil || apierrors.IsAlreadyExists(err) {
			return errLookAgain
		}
	}
	if err != nil {
		return fmt.Errorf("CRD %s: %w", want.Name, err)
	}
	have := &apiextensionsv1.CustomResourceDefinition{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, have); err != nil {
		return fmt.Errorf("CRD %s: %w", want.Name, err)
	}
	switch {
	case have.DeletionTimestamp != nil: // of a template of that name before
		return errLookAgain
	case same(have, want):
		if !established(have) {
			return errLookAgain
		}
		return nil
	}
	have.Spec, have.OwnerReferences = want.Spec, want.OwnerReferences
	if have.Labels == nil {
		have.Labels = map[string]string{}
	}
	maps.Copy(have.Labels, want.Labels)
	_, err = crds.Update(ctx, definition(have), metav1.UpdateOptions{})
	if apierrors.IsConflict(err) {
		return errLookAgain
	}
	if err != nil {
		return fmt.Errorf("CRD %s: %w", want.Name, err)
	}
	return nil
}

// same says that have is as wanted. Others may have added labels.
func same(have, want *apiextensionsv1.CustomResourceDefinition) bool {
	for name, value := range want.Labels {
		if have.Labels[name] != value {
			return false
		}
	}
	owner := metav1.GetControllerOf(have)
	return owner != nil && owner.UID == want.OwnerReferences[0].UID && equality.Semantic.DeepEqual(have.Spec, want.Spec)
}

func established(crd *apiextensionsv1.CustomResourceDefinition) bool {
	for _, c := range crd.Status.Conditions {
		if c.Type == apiextensionsv1.Established {
			return c.Status == apiextensionsv1.ConditionTrue
		}
	}
	return false
}

// definition is crd as it is written: without its status.
func definition(crd *apiextensionsv1.CustomResourceDefinition) *unstructured.Unstructured {
	// It fails for what has no form in JSON, and crd has been JSON, or the framework made it.
	content, _ := runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
	o := &unstructured.Unstructured{Object: content}
	o.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	delete(o.Object, "status")
	return o
}
