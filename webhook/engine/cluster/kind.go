package cluster

import (
	"context"
	"errors"
	"net/url"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
)

// kind is a kind that is watched. A kind that the cluster does not have is one without
// objects: the informer asks again, with its backoff, until there is such a kind, and hears
// of each object as deleted when there is none any more.
type kind struct {
	gvk          schema.GroupVersionKind
	controller   *controller
	informer     cache.SharedIndexInformer
	registration cache.ResourceEventHandlerRegistration
	ctx          context.Context // ends when the kind is watched no more
	cancel       context.CancelFunc
	synced       bool       // all that there was is handled; guarded by controller.mu
	handing      sync.Mutex // held while an event is handed over

	// The informer's reflector alone has these. It makes attempts: it watches with all that
	// there is sent first, or lists where it cannot; and then watches.
	resource schema.GroupVersionResource // empty: not known
	absent   bool                        // as this attempt has found out

	mu      sync.Mutex
	last    error     // the last answer
	refused time.Time // since when the API server has answered with an error
}

func (c *controller) newKind(gvk schema.GroupVersionKind) *kind {
	k := &kind{gvk: gvk, controller: c}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	example := &unstructured.Unstructured{}
	example.SetGroupVersionKind(gvk)
	lists := &cache.ListWatch{ListWithContextFunc: k.list, WatchFuncWithContext: k.watch}
	k.informer = cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(lists, c.client), example, 0, cache.Indexers{})
	// These fail only for an informer that runs.
	_ = k.informer.SetTransform(strip)
	_ = k.informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		c.log.Debug("a watch has ended", "kind", gvk.String(), "error", err)
	})
	k.registration, _ = k.informer.AddEventHandler(k)
	return k
}

func (k *kind) start() {
	k.controller.running.Go(func() { k.informer.RunWithContext(k.ctx) })
	k.controller.running.Go(func() {
		select {
		case <-k.registration.HasSyncedChecker().Done():
			k.tell(event{change: synced})
		case <-k.ctx.Done():
		}
	})
}

// end returns when no event is handed over any more.
func (k *kind) end() {
	k.cancel()
	k.handing.Lock()
	defer k.handing.Unlock()
}

func (k *kind) tell(e event) {
	k.handing.Lock()
	defer k.handing.Unlock()
	if k.ctx.Err() != nil { // alone: the select may choose the receiver
		return
	}
	e.kind = k
	select {
	case k.controller.events <- e:
	case <-k.ctx.Done():
	}
}

// OnAdd implements cache.ResourceEventHandler.
func (k *kind) OnAdd(object any, _ bool) {
	k.tell(event{object: object.(*unstructured.Unstructured)})
}

// OnUpdate implements cache.ResourceEventHandler. An object that was deleted and made again
// while there was no connection is told as two.
func (k *kind) OnUpdate(before, after any) {
	e := event{object: after.(*unstructured.Unstructured), old: before.(*unstructured.Unstructured)}
	if e.old.GetUID() != e.object.GetUID() {
		k.tell(event{change: deleted, object: e.old})
		e.old = nil
	}
	k.tell(e)
}

// OnDelete implements cache.ResourceEventHandler.
func (k *kind) OnDelete(object any) {
	if missed, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = missed.Obj
	}
	k.tell(event{change: deleted, object: object.(*unstructured.Unstructured)})
}

// strip drops what is large and what no policy can mean.
func strip(object any) (any, error) {
	if o, ok := object.(*unstructured.Unstructured); ok {
		o.SetManagedFields(nil)
		unstructured.RemoveNestedField(o.Object, "metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration")
	}
	return object, nil
}

func (k *kind) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	list := &unstructured.UnstructuredList{}
	if k.absent {
		return list, nil
	}
	err := k.ask(ctx, func(r dynamic.ResourceInterface) (err error) {
		list, err = r.List(ctx, o)
		return err
	})
	if k.absent {
		return &unstructured.UnstructuredList{}, nil
	}
	return list, err
}

var errAbsent = errors.New("the cluster has no such kind")

func (k *kind) watch(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
	if k.absent && o.SendInitialEvents == nil {
		k.absent = false // the next attempt asks
		return nil, errAbsent
	}
	var w apiwatch.Interface
	err := k.ask(ctx, func(r dynamic.ResourceInterface) (err error) {
		w, err = r.Watch(ctx, o)
		return err
	})
	return w, err
}

// ask sends a request and notes how it went.
func (k *kind) ask(ctx context.Context, request func(dynamic.ResourceInterface) error) (err error) {
	if k.resource.Empty() {
		k.resource, err = k.controller.resource(ctx, k.gvk)
	}
	if err == nil {
		err = request(k.controller.client.Resource(k.resource))
	}
	k.absent = apierrors.IsNotFound(err) || meta.IsNoMatchError(err)
	if k.absent {
		k.resource = schema.GroupVersionResource{} // it may come back as another
	}
	if ctx.Err() == nil && k.note(err) && k.absent {
		k.controller.absent(k.gvk)
	}
	return err
}

// note keeps err for those who ask why. It says whether it is another one than before, and then logs it.
func (k *kind) note(err error) (news bool) {
	// The address has a timeout that is another each time.
	if u := (*url.Error)(nil); errors.As(err, &u) {
		err = u.Err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	before := k.last
	k.last = err
	if status := apierrors.APIStatus(nil); !errors.As(err, &status) {
		k.refused = time.Time{}
	} else if k.refused.IsZero() {
		k.refused = time.Now()
	}
	log := k.controller.log.With("kind", k.gvk.String())
	switch {
	case err == nil && before != nil:
		log.Info("watched now")
	case err == nil || before != nil && before.Error() == err.Error():
		return false
	case k.absent:
		log.Info("not watched yet: the cluster has no such kind")
	default:
		log.Warn("cannot watch; what is known is kept", "error", err)
	}
	return true
}

func (k *kind) failure() (refused time.Duration, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.refused.IsZero() {
		refused = time.Since(k.refused)
	}
	return refused, k.last
}
