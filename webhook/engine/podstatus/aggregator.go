package podstatus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/docket-export/docket/webhook/engine/lease"
	"github.com/docket-export/docket/webhook/engine/policy"
)

// aggregatorPause is such that all pods that compile a changed policy cost one write of its status.
const aggregatorPause = time.Second

// AggregatorConfig is what an Aggregator needs. Namespace is that of the pods.
type AggregatorConfig struct {
	Client    dynamic.Interface
	Namespace string
	Lease     resourcelock.Interface // nil: it is alone
	Log       *slog.Logger
}

// Aggregator copies what the pods say into the status of templates and constraints.
type Aggregator struct {
	AggregatorConfig

	// These are of one term as the leader.
	changed     signal
	constraints map[string]*watched // by kind
}

// watched are the objects of one resource, kept up to date.
type watched struct {
	cache.SharedIndexInformer
	resource schema.GroupVersionResource
	stop     context.CancelFunc
}

// NewAggregator returns an Aggregator that does nothing before Run.
func NewAggregator(c AggregatorConfig) *Aggregator {
	return &Aggregator{AggregatorConfig: c}
}

// Run aggregates until ctx is done, whenever it holds the Lease, and returns nil then.
func (a *Aggregator) Run(ctx context.Context) error {
	if a.Lease == nil {
		a.lead(ctx)
		return nil
	}
	return lease.Hold(ctx, a.Lease, a.lead)
}

// lead aggregates until ctx is done.
func (a *Aggregator) lead(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	a.changed, a.constraints = newSignal(aggregatorPause), map[string]*watched{}
	labeled := func(o *metav1.ListOptions) { o.LabelSelector = Label }
	podsOf := a.watch(ctx, &running, pods, a.Namespace, labeled)
	statuses := a.watch(ctx, &running, Resource, a.Namespace, nil)
	templatesOf := a.watch(ctx, &running, templates, "", nil)
	cache.WaitForCacheSync(ctx.Done(), podsOf.HasSynced, statuses.HasSynced, templatesOf.HasSynced)
	a.changed.set()
	a.changed.each(ctx, a.Log, "write status of policies", func(ctx context.Context) error {
		members, err := membersOf(podsOf, statuses)
		a.follow(ctx, &running, templatesOf, members)
		return errors.Join(err, a.write(ctx, members, templatesOf))
	})
}

// watch keeps the objects of a resource until ctx is done or stop is called.
func (a *Aggregator) watch(ctx context.Context, running *sync.WaitGroup, resource schema.GroupVersionResource, namespace string, only dynamicinformer.TweakListOptionsFunc) *watched {
	ctx, stop := context.WithCancel(ctx)
	informer := dynamicinformer.NewFilteredDynamicInformer(a.Client, resource, namespace, 0, cache.Indexers{}, only).Informer()
	set := func(any) { a.changed.set() }
	// Both fail only for an informer that runs.
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: set, UpdateFunc: func(any, any) { a.changed.set() }, DeleteFunc: set})
	_ = informer.SetTransform(func(o any) (any, error) {
		if u, ok := o.(*unstructured.Unstructured); ok {
			u.SetManagedFields(nil)
			unstructured.RemoveNestedField(u.Object, "spec", "targets") // the policy's code
		}
		return o, nil
	})
	running.Go(func() { informer.Run(ctx.Done()) })
	return &watched{informer, resource, stop}
}

// follow watches the constraints of each kind that a template defines, from when a pod reports one: its CRD serves then.
func (a *Aggregator) follow(ctx context.Context, running *sync.WaitGroup, templatesOf *watched, members []member) {
	reported := map[string]bool{}
	for _, m := range members {
		for p := range m.policies {
			reported[p.kind] = true
		}
	}
	kinds := map[string]bool{}
	for _, t := range templatesOf.objects() {
		kind, _, _ := unstructured.NestedString(t.Object, "spec", "crd", "spec", "names", "kind")
		kinds[kind] = true
		if reported[kind] && a.constraints[kind] == nil {
			resource := schema.GroupVersionResource{Group: policy.ConstraintsGroup, Version: "v1beta1", Resource: strings.ToLower(kind)}
			a.constraints[kind] = a.watch(ctx, running, resource, "", nil)
		}
	}
	for kind, w := range a.constraints {
		if !kinds[kind] {
			w.stop()
			delete(a.constraints, kind)
		}
	}
}

// write makes the status of each template and constraint say what the pods do. One that cannot be written does not keep
// the others from it.
func (a *Aggregator) write(ctx context.Context, members []member, templatesOf *watched) error {
	var failure error
	for _, w := range append(slices.Collect(maps.Values(a.constraints)), templatesOf) {
		for _, o := range w.objects() {
			if err := a.writeOne(ctx, w.resource, o, members); err != nil && failure == nil {
				failure = fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
			}
		}
	}
	return failure
}

// writeOne asks the API server for nothing if the object says what it should.
func (a *Aggregator) writeOne(ctx context.Context, resource schema.GroupVersionResource, o *unstructured.Unstructured, members []member) error {
	s := summarize(o, members)
	want, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&s)
	if err != nil {
		return err
	}
	have, _, _ := unstructured.NestedMap(o.Object, "status")
	if reflect.DeepEqual(have["byPod"], want["byPod"]) && reflect.DeepEqual(have["docket"], want["docket"]) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"status": want})
	if err != nil {
		return err
	}
	_, err = a.Client.Resource(resource).Patch(ctx, o.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// objects returns the objects of a resource, which are shared: read only.
func (w *watched) objects() []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for _, o := range w.GetStore().List() {
		if u, ok := o.(*unstructured.Unstructured); ok {
			all = append(all, u)
		}
	}
	return all
}

// membersOf returns the pods that have not ended, in the order of their names, and what they say. An error names a status
// that cannot be read: its pod has said nothing.
func membersOf(podsOf, statuses *watched) (members []member, err error) {
	said := map[types.UID]Status{}
	for _, o := range statuses.objects() {
		var s PolicyPodStatus
		if failure := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &s); failure != nil {
			err = fmt.Errorf("pod status %s: %w", o.GetName(), failure)
			continue
		}
		for _, owner := range s.OwnerReferences {
			said[owner.UID] = s.Status
		}
	}
	for _, o := range podsOf.objects() {
		phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
		if phase == string(corev1.PodSucceeded) || phase == string(corev1.PodFailed) {
			continue // an evicted pod stays for its post-mortem
		}
		s := said[o.GetUID()]
		m := member{name: o.GetName(), terminating: o.GetDeletionTimestamp() != nil, operations: s.Operations, policies: map[reference]Policy{}}
		for _, p := range s.Policies {
			m.policies[reference{p.Kind, p.Name, p.UID}] = p
		}
		members = append(members, m)
	}
	slices.SortFunc(members, func(a, b member) int { return strings.Compare(a.name, b.name) })
	return members, err
}
