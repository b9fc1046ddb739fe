package policy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/open-policy-agent/gatekeeper/v3/pkg/cachemanager/parser"
	"github.com/open-policy-agent/gatekeeper/v3/pkg/target"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// inventory is the data that policies refer to as data.inventory. Each policy that does has a store of its own, and all
// stores hold the same objects by reference.
type inventory struct {
	mu      sync.Mutex                       // held while data is written to the stores, never by a review
	kinds   map[schema.GroupVersionKind]bool // false: pending, see Syncing
	objects map[string]datum
	users   map[string]*snapshot

	namespaces sync.Map // those among the objects, by name: *corev1.Namespace
}

type datum struct {
	kind   schema.GroupVersionKind
	path   []string
	object map[string]any
}

// IsNamespace says whether a kind is that of namespaces.
func IsNamespace(kind schema.GroupKind) bool { return kind == schema.GroupKind{Kind: "Namespace"} }

// ReadNamespace reads an object that is a namespace.
func ReadNamespace(obj *unstructured.Unstructured) (*corev1.Namespace, error) {
	ns := &corev1.Namespace{}
	return ns, runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, ns)
}

func (d *inventory) drop(key string, o datum) {
	delete(d.objects, key)
	if IsNamespace(o.kind.GroupKind()) {
		d.namespaces.Delete(o.path[len(o.path)-1])
	}
}

// namespace returns a namespace that is among the data, or nil.
func (d *inventory) namespace(name string) *corev1.Namespace {
	ns, _ := d.namespaces.Load(name)
	found, _ := ns.(*corev1.Namespace)
	return found
}

// missing says which data a template needs that is not synced: of one kind for each name, "" for any, and for each
// requirement.
func (d *inventory) missing(kinds []string, required parser.SyncRequirements) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, kind := range kinds {
		if !d.synced(func(gvk schema.GroupVersionKind) bool { return kind == "" || gvk.Kind == kind }) {
			return fmt.Errorf("it refers to data.inventory, and %s is synced", strings.TrimSpace("no kind "+kind))
		}
	}
	for _, equivalent := range required {
		if !d.synced(func(gvk schema.GroupVersionKind) bool { _, ok := equivalent[gvk]; return ok }) {
			return fmt.Errorf("it needs data that is not synced: %s", equivalent)
		}
	}
	return nil
}

// synced says whether there is such a kind all of whose objects are here.
func (d *inventory) synced(such func(schema.GroupVersionKind) bool) bool {
	for gvk, all := range d.kinds {
		if all && such(gvk) {
			return true
		}
	}
	return false
}

// use fills the store of a policy that is about to be served, and keeps it up to date from then on instead of its
// predecessor's.
func (d *inventory) use(ctx context.Context, p *snapshot) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.users, p.name)
	if p.client == nil || !p.refers {
		return
	}
	tree := map[string]any{}
	for _, o := range d.objects {
		at := tree
		for _, name := range o.path[:len(o.path)-1] {
			below, ok := at[name].(map[string]any)
			if !ok {
				below = map[string]any{}
				at[name] = below
			}
			at = below
		}
		at[o.path[len(o.path)-1]] = o.object
	}
	// The store is new and in memory: a write of its root's member cannot fail.
	_ = storage.WriteOne(ctx, p.store, storage.AddOp, storage.Path{"inventory"}, tree)
	if d.users == nil {
		d.users = map[string]*snapshot{}
	}
	d.users[p.name] = p
}

// write changes the store of each policy that has one, whatever becomes of the others.
func (d *inventory) write(path []string, change func(*snapshot) error) error {
	var errs []error
	for _, p := range d.users {
		if err := change(p); err != nil {
			errs = append(errs, fmt.Errorf("data %s: policy %s: %w", strings.Join(path, "/"), p.name, err))
		}
	}
	return errors.Join(errs...)
}

// Sync says of which kinds objects are data. The objects of other kinds are dropped. A policy that needs data of a kind
// which is not listed is in Error.
func (s *Set) Sync(kinds []schema.GroupVersionKind) { s.Syncing(kinds, nil) }

// Syncing is Sync while objects of pending kinds are still to be put. To policies such a kind is not listed yet.
func (s *Set) Syncing(kinds, pending []schema.GroupVersionKind) {
	wanted := map[schema.GroupVersionKind]bool{}
	for _, k := range kinds {
		wanted[k] = !slices.Contains(pending, k)
	}
	s.data.mu.Lock()
	unchanged := maps.Equal(s.data.kinds, wanted)
	s.data.kinds = wanted
	for key, o := range s.data.objects {
		if _, ok := wanted[o.kind]; !ok {
			s.data.drop(key, o)
		}
	}
	s.data.mu.Unlock()
	if unchanged {
		return
	}
	s.mu.Lock()
	names := slices.Collect(maps.Keys(s.entries))
	s.mu.Unlock()
	for _, name := range names {
		s.reload(context.Background(), name, func(e *entry) bool { return e.refers })
	}
}

// PutData takes the newest revision of an object that is data. The Set keeps obj, so do not change it afterwards.
func (s *Set) PutData(ctx context.Context, obj *unstructured.Unstructured) error {
	path, err := s.pathOf(obj)
	if err != nil {
		return err
	}
	d := &s.data
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.kinds[obj.GroupVersionKind()]; !ok {
		return fmt.Errorf("data %s: its kind is not synced", strings.Join(path, "/"))
	}
	if d.objects == nil {
		d.objects = map[string]datum{}
	}
	d.objects[strings.Join(path, "\x00")] = datum{obj.GroupVersionKind(), path, obj.Object}
	if IsNamespace(obj.GroupVersionKind().GroupKind()) {
		ns, err := ReadNamespace(obj)
		if err != nil {
			return fmt.Errorf("data %s: %w", strings.Join(path, "/"), err)
		}
		d.namespaces.Store(obj.GetName(), ns)
	}
	return d.write(path, func(p *snapshot) error { return p.driver.AddData(ctx, target.Name, path, obj.Object) })
}

// DeleteData drops an object from the data.
func (s *Set) DeleteData(ctx context.Context, obj *unstructured.Unstructured) error {
	path, err := s.pathOf(obj)
	if err != nil {
		return err
	}
	d := &s.data
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drop(strings.Join(path, "\x00"), datum{obj.GroupVersionKind(), path, obj.Object})
	return d.write(path, func(p *snapshot) error { return p.driver.RemoveData(ctx, target.Name, path) })
}

func (s *Set) pathOf(obj *unstructured.Unstructured) ([]string, error) {
	_, path, _, err := s.target.ProcessData(obj)
	return path, err
}

// transactions is a store that knows the transactions which a review has open. Rego ends them in a way that a panic
// skips, and the next write would wait for them for ever, and every review for that write.
type transactions struct{ storage.Store }

func newTransactions() *transactions {
	return &transactions{inmem.NewFromObjectWithOpts(map[string]any{"inventory": map[string]any{}}, inmem.OptRoundTripOnWrite(false))}
}

// openKey is the key of a review's *open in its context.
type openKey struct{}

// open are the transactions of one review. It is used by that review's goroutine alone.
type open struct {
	list map[storage.Transaction]storage.Store
}

func withOpen(ctx context.Context) (context.Context, *open) {
	o := &open{}
	return context.WithValue(ctx, openKey{}, o), o
}

func (o *open) abort(ctx context.Context) {
	for txn, store := range o.list {
		store.Abort(ctx, txn)
	}
}

func (t *transactions) NewTransaction(ctx context.Context, params ...storage.TransactionParams) (storage.Transaction, error) {
	txn, err := t.Store.NewTransaction(ctx, params...)
	if o, ok := ctx.Value(openKey{}).(*open); ok && err == nil {
		if o.list == nil {
			o.list = map[storage.Transaction]storage.Store{}
		}
		o.list[txn] = t.Store
	}
	return txn, err
}

func (t *transactions) Abort(ctx context.Context, txn storage.Transaction) {
	if o, ok := ctx.Value(openKey{}).(*open); ok {
		delete(o.list, txn)
	}
	t.Store.Abort(ctx, txn)
}
