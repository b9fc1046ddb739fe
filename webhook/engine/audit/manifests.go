package audit

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/docket-export/docket/webhook/engine/directory"
	"github.com/docket-export/docket/webhook/engine/policy"
)

// Manifests is the Lister of objects in files.
type Manifests struct {
	directory.Namespaces

	kinds   []Kind
	objects map[schema.GroupVersionKind]*unstructured.UnstructuredList
	unread  error
}

// ReadManifests reads files, and directories with those below. What cannot be read keeps runs from being complete.
func ReadManifests(paths ...string) *Manifests {
	m := &Manifests{Namespaces: directory.Namespaces{}, kinds: []Kind{}, objects: map[schema.GroupVersionKind]*unstructured.UnstructuredList{}}
	objects, problems := directory.Read(paths...)
	var unread []error
	for _, p := range problems {
		unread = append(unread, errors.New(p.String()))
	}
	for _, o := range objects {
		gvk := o.GroupVersionKind()
		if policy.IsNamespace(gvk.GroupKind()) {
			unread = append(unread, m.Add(o.Unstructured))
		}
		list := m.objects[gvk]
		if list == nil {
			list = &unstructured.UnstructuredList{}
			m.objects[gvk] = list
			m.kinds = append(m.kinds, Kind{GroupVersionKind: gvk})
		}
		list.Items = append(list.Items, *o.Unstructured)
	}
	m.unread = errors.Join(unread...)
	return m
}

// Kinds returns the kinds of the objects.
func (m *Manifests) Kinds(context.Context) ([]Kind, error) { return m.kinds, m.unread }

// List returns all objects of a kind: they are in memory.
func (m *Manifests) List(_ context.Context, k Kind, _ int64, _ string) (*unstructured.UnstructuredList, error) {
	return m.objects[k.GroupVersionKind], nil
}
