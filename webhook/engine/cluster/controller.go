package cluster

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// change says what an event tells.
type change uint8

const (
	changed change = iota // the object is there, or has changed
	deleted               // the object is gone
	synced                // each object of the kind that there was has been told; comes once
)

// event is what happened to an object of a watched kind.
type event struct {
	change
	kind   *kind
	object *unstructured.Unstructured // of deleted: as it was last seen; of synced: nil
	old    *unstructured.Unstructured // of changed: the same object before, if it was told
}

// controller watches the kinds that somebody is interested in at the moment, and handles their events one after the other.
// Events about one object come in the order in which they happened. Its methods may be called at any time, also while an
// event is handled: none waits for the API server.
type controller struct {
	client   dynamic.Interface
	resource func(context.Context, schema.GroupVersionKind) (schema.GroupVersionResource, error)
	// absent is told of each kind that the cluster has no more, or not yet. It must not block.
	absent func(schema.GroupVersionKind)
	handle func(context.Context, event)
	log    *slog.Logger

	events  chan event
	running sync.WaitGroup

	mu    sync.Mutex
	kinds map[schema.GroupVersionKind]*kind
}

func (k *Cluster) newController(handle func(context.Context, event)) *controller {
	return &controller{
		client: k.client, resource: k.resource, absent: k.templates.redefine, handle: handle, log: k.log,
		events: make(chan event), kinds: map[schema.GroupVersionKind]*kind{},
	}
}

// run handles events until ctx is done.
func (c *controller) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-c.events:
			c.handle(ctx, e)
			if e.change == synced {
				c.mu.Lock()
				e.kind.synced = true
				c.mu.Unlock()
			}
		}
	}
}

// close ends all watches and waits for them.
func (c *controller) close() {
	c.replace(nil)
	c.running.Wait()
}

// add watches a kind too. If it is watched already that goes on.
func (c *controller) add(gvk schema.GroupVersionKind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kinds[gvk] == nil {
		c.kinds[gvk] = c.newKind(gvk)
		c.kinds[gvk].start()
	}
}

// remove watches a kind no more. When it has returned no event of the kind comes: the objects that there were are for the
// caller to forget.
func (c *controller) remove(gvk schema.GroupVersionKind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.kinds[gvk]; k != nil {
		k.end()
		delete(c.kinds, gvk)
	}
}

// replace makes kinds the only ones that are watched.
func (c *controller) replace(kinds []schema.GroupVersionKind) {
	c.mu.Lock()
	var others []schema.GroupVersionKind
	for gvk := range c.kinds {
		if !slices.Contains(kinds, gvk) {
			others = append(others, gvk)
		}
	}
	c.mu.Unlock()
	for _, gvk := range others {
		c.remove(gvk)
	}
	for _, gvk := range kinds {
		c.add(gvk)
	}
}

// missing returns the watched kinds of which not all that there was is handled.
func (c *controller) missing() (kinds []schema.GroupVersionKind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for gvk, k := range c.kinds {
		if !k.synced {
			kinds = append(kinds, gvk)
		}
	}
	return kinds
}

// err returns why a kind cannot be watched at the moment, or nil, and for how long the API server has answered with an error.
func (c *controller) err(gvk schema.GroupVersionKind) (refused time.Duration, err error) {
	c.mu.Lock()
	k := c.kinds[gvk]
	c.mu.Unlock()
	if k == nil {
		return 0, nil
	}
	return k.failure()
}

// list returns the objects of a watched kind. They may be ahead of the events.
func (c *controller) list(gvk schema.GroupVersionKind) (objects []*unstructured.Unstructured) {
	c.mu.Lock()
	k := c.kinds[gvk]
	c.mu.Unlock()
	if k == nil {
		return nil
	}
	for _, o := range k.informer.GetStore().List() {
		objects = append(objects, o.(*unstructured.Unstructured))
	}
	return objects
}
