// Package watch watches the kinds of a cluster that somebody is interested in at the moment.
//
// Each controller has a Registrar, with which it adds, removes or replaces its intent to
// watch a kind. A Manager watches the union of all intents: each kind once, with one cache
// that all registrars share, from the first intent to the last.
package watch

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
)

// Type says what an Event tells.
type Type uint8

// The types of events.
const (
	Put    Type = iota // Object is there, or has changed
	Delete             // Object is gone
	Synced             // each object of Kind that there was has been told; comes once for each intent
)

// Event is what a registrar hears of a kind. Its objects are shared: they are read only.
type Event struct {
	Type   Type
	Kind   schema.GroupVersionKind
	Object *unstructured.Unstructured // of Delete: as it was last seen; of Synced: nil
	Old    *unstructured.Unstructured // of Put: the same object before, if it was told
}

// Manager watches the kinds that its registrars want.
type Manager struct {
	// Absent, unless it is nil, is told of each kind that the cluster has no more, or not yet. It must not block. Set it
	// before the first intent.
	Absent func(schema.GroupVersionKind)

	client   dynamic.Interface
	resource ResourceFunc
	log      *slog.Logger
	running  sync.WaitGroup

	mu    sync.Mutex
	kinds map[schema.GroupVersionKind]*kind // those that have an intent
}

// ResourceFunc returns the resource of a kind. If the cluster does not have the kind, its
// error is one of IsNotFound or IsNoMatchError.
type ResourceFunc func(context.Context, schema.GroupVersionKind) (schema.GroupVersionResource, error)

// New returns a manager that asks client, and watches nothing yet.
func New(client dynamic.Interface, resource ResourceFunc, log *slog.Logger) *Manager {
	return &Manager{client: client, resource: resource, log: log, kinds: map[schema.GroupVersionKind]*kind{}}
}

// Close ends all watches and waits for them. Registrars hear nothing more.
func (m *Manager) Close() {
	m.mu.Lock()
	for _, k := range m.kinds {
		for _, i := range k.intents {
			m.remove(i)
		}
	}
	m.mu.Unlock()
	m.running.Wait()
}

// Err returns why kind cannot be watched at the moment, or nil, and for how long the API server has answered with an error.
func (m *Manager) Err(gvk schema.GroupVersionKind) (refused time.Duration, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.kinds[gvk]; k != nil {
		return k.failure()
	}
	return 0, nil
}

// Registrar is the intent of one controller to watch kinds. Its methods may be called at
// any time, also while an event is handled: none waits for the API server.
type Registrar struct {
	manager *Manager
	events  chan Event
	intents map[schema.GroupVersionKind]*intent // guarded by manager.mu
}

// Registrar returns a new registrar without intents.
func (m *Manager) Registrar() *Registrar {
	return &Registrar{manager: m, events: make(chan Event), intents: map[schema.GroupVersionKind]*intent{}}
}

// Events returns the channel of all that the registrar hears, which is never closed. Events
// about one object come in the order in which they happened, and none is left out. Where
// the kind is watched already, the objects there are come first.
func (r *Registrar) Events() <-chan Event { return r.events }

// Add adds the intent to watch each of kinds. What is watched already goes on.
func (r *Registrar) Add(kinds ...schema.GroupVersionKind) {
	r.manager.mu.Lock()
	defer r.manager.mu.Unlock()
	r.add(kinds)
}

func (r *Registrar) add(kinds []schema.GroupVersionKind) {
	for _, gvk := range kinds {
		if r.intents[gvk] == nil {
			r.manager.add(r, gvk)
		}
	}
}

// Remove ends the intent to watch each of kinds. When it has returned no event of them comes
// any more: the objects that there were are for the caller to forget.
func (r *Registrar) Remove(kinds ...schema.GroupVersionKind) {
	r.manager.mu.Lock()
	defer r.manager.mu.Unlock()
	for _, gvk := range kinds {
		if i := r.intents[gvk]; i != nil {
			r.manager.remove(i)
		}
	}
}

// Replace makes kinds the only ones of which there is an intent.
func (r *Registrar) Replace(kinds []schema.GroupVersionKind) {
	r.manager.mu.Lock()
	defer r.manager.mu.Unlock()
	for gvk, i := range r.intents {
		if !slices.Contains(kinds, gvk) {
			r.manager.remove(i)
		}
	}
	r.add(kinds)
}

// Kinds returns the kinds of which there is an intent.
func (r *Registrar) Kinds() []schema.GroupVersionKind {
	r.manager.mu.Lock()
	defer r.manager.mu.Unlock()
	kinds := make([]schema.GroupVersionKind, 0, len(r.intents))
	for gvk := range r.intents {
		kinds = append(kinds, gvk)
	}
	return kinds
}

// List returns the objects of a watched kind. They may be ahead of the events.
func (r *Registrar) List(gvk schema.GroupVersionKind) []*unstructured.Unstructured {
	r.manager.mu.Lock()
	i := r.intents[gvk]
	r.manager.mu.Unlock()
	if i == nil {
		return nil
	}
	var objects []*unstructured.Unstructured
	for _, o := range i.kind.informer.GetStore().List() {
		objects = append(objects, o.(*unstructured.Unstructured))
	}
	return objects
}

// add starts to watch gvk, unless it is watched, and tells r of it. It is called with mu held.
func (m *Manager) add(r *Registrar, gvk schema.GroupVersionKind) {
	k := m.kinds[gvk]
	first := k == nil
	if first {
		k = m.newKind(gvk)
		m.kinds[gvk] = k
	}
	i := &intent{registrar: r, kind: k, done: make(chan struct{})}
	// It fails for an informer that has ended, and that one is not in kinds any more.
	i.registration, _ = k.informer.AddEventHandler(i)
	r.intents[gvk] = i
	k.intents[r] = i
	m.running.Go(i.tellSynced)
	if first {
		m.running.Go(k.run)
	}
}

// remove ends i, and the watch if i is the last. It is called with mu held.
func (m *Manager) remove(i *intent) {
	i.end()
	// It fails for what this informer has not registered.
	_ = i.kind.informer.RemoveEventHandler(i.registration)
	gvk := i.kind.gvk
	delete(i.registrar.intents, gvk)
	delete(i.kind.intents, i.registrar)
	if len(i.kind.intents) == 0 {
		i.kind.cancel()
		delete(m.kinds, gvk)
	}
}

// intent hands the events of a kind to a registrar.
type intent struct {
	registrar    *Registrar
	kind         *kind
	registration cache.ResourceEventHandlerRegistration
	done         chan struct{}

	handing sync.Mutex // held while an event is handed over
}

// end returns when no event is handed over any more.
func (i *intent) end() {
	close(i.done)
	i.handing.Lock()
	defer i.handing.Unlock()
}

func (i *intent) tell(e Event) {
	i.handing.Lock()
	defer i.handing.Unlock()
	select {
	case <-i.done: // alone: the other select may choose the receiver
		return
	default:
	}
	e.Kind = i.kind.gvk
	select {
	case i.registrar.events <- e:
	case <-i.done:
	}
}

func (i *intent) tellSynced() {
	select {
	case <-i.registration.HasSyncedChecker().Done():
		i.tell(Event{Type: Synced})
	case <-i.done:
	}
}

// OnAdd implements cache.ResourceEventHandler.
func (i *intent) OnAdd(object any, _ bool) {
	i.tell(Event{Type: Put, Object: object.(*unstructured.Unstructured)})
}

// OnUpdate implements cache.ResourceEventHandler. An object that was deleted and made again
// while there was no connection is told as two.
func (i *intent) OnUpdate(before, after any) {
	e := Event{Type: Put, Object: after.(*unstructured.Unstructured), Old: before.(*unstructured.Unstructured)}
	if e.Old.GetUID() != e.Object.GetUID() {
		i.tell(Event{Type: Delete, Object: e.Old})
		e.Old = nil
	}
	i.tell(e)
}

// OnDelete implements cache.ResourceEventHandler.
func (i *intent) OnDelete(object any) {
	if missed, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = missed.Obj
	}
	i.tell(Event{Type: Delete, Object: object.(*unstructured.Unstructured)})
}
