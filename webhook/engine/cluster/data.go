package cluster

import (
	"context"
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/docket-export/docket/webhook/engine/policy"
	"github.com/docket-export/docket/webhook/engine/settings"
)

// dataEvent handles what happens to Config, SyncSet, and the objects that are data.
func (k *Cluster) dataEvent(ctx context.Context, e event) {
	if slices.Contains(settingsKinds, e.kind.gvk) {
		k.settingsEvent(ctx, e)
	}
	switch {
	case e.change == synced:
		k.syncing(e.kind.gvk)
	case slices.Contains(k.kinds, e.kind.gvk):
		k.datum(ctx, e.object, e.change == deleted)
	}
}

// syncing tells the policies which kinds are data, and that objects are still to come of those that are neither synced nor
// among done.
func (k *Cluster) syncing(done ...schema.GroupVersionKind) {
	pending := slices.DeleteFunc(k.data.missing(), func(gvk schema.GroupVersionKind) bool { return slices.Contains(done, gvk) })
	k.config.Policies.Syncing(k.kinds, pending)
}

func (k *Cluster) settingsEvent(ctx context.Context, e event) {
	if o := e.object; o != nil {
		if e.kind.gvk == configKind && !k.ownConfig(o) {
			return
		}
		key := o.GetKind() + "/" + o.GetNamespace() + "/" + o.GetName()
		if e.change == deleted {
			delete(k.sources, key)
		} else {
			k.sources[key] = o
		}
	}
	var objects []*unstructured.Unstructured
	for _, key := range slices.Sorted(maps.Keys(k.sources)) {
		objects = append(objects, k.sources[key])
	}
	next, err := settings.Of(objects...)
	if err != nil {
		k.log.Error("settings are left out", "error", err)
	}
	k.mu.Lock()
	unchanged := reflect.DeepEqual(k.settings, next)
	k.settings = next
	k.mu.Unlock()
	if unchanged {
		return
	}
	k.kinds = slices.DeleteFunc(slices.Clone(next.Kinds), func(gvk schema.GroupVersionKind) bool { return gvk.Version == "" || gvk.Kind == "" })
	k.data.replace(append(slices.Clone(settingsKinds), k.kinds...))
	k.syncing()
	// Of what stays, other namespaces may be excluded now.
	for _, gvk := range k.kinds {
		for _, o := range k.data.list(gvk) {
			k.datum(ctx, o, false)
		}
	}
}

// ownConfig says whether a Config is the one of the cluster: not of any namespace, where
// others may write.
func (k *Cluster) ownConfig(o *unstructured.Unstructured) bool {
	return o.GetName() == "config" && (o.GetNamespace() == k.config.Namespace || o.GetNamespace() == "gatekeeper-system")
}

// datum puts an object into the data, or takes it out.
func (k *Cluster) datum(ctx context.Context, o *unstructured.Unstructured, gone bool) {
	k.mu.RLock()
	gone = gone || k.settings.ExcludedObject(settings.Sync, o)
	k.mu.RUnlock()
	change := k.config.Policies.PutData
	if gone {
		change = k.config.Policies.DeleteData
	}
	if err := change(ctx, o); err != nil {
		k.log.Error("data of policies are not up to date", "kind", o.GetKind(), "namespace", o.GetNamespace(), "name", o.GetName(), "error", err)
	}
}

func (k *Cluster) namespaceEvent(_ context.Context, e event) {
	if e.change == synced {
		return
	}
	ns, err := policy.ReadNamespace(e.object)
	if err != nil {
		k.log.Error("a namespace cannot be read", "name", e.object.GetName(), "error", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if e.change == deleted || err != nil {
		delete(k.known, e.object.GetName())
	} else {
		k.known[ns.Name] = ns
	}
}

// Namespace returns a namespace: the one that was seen last, or else what the API server has.
// It is shared: it is read only.
func (k *Cluster) Namespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	k.mu.RLock()
	ns := k.known[name]
	k.mu.RUnlock()
	if ns != nil {
		return ns, nil
	}
	o, err := k.client.Resource(namespaces).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return policy.ReadNamespace(o)
}
