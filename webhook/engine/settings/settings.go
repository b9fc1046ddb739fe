// Package settings reads Gatekeeper's Config and SyncSet: which kinds are data of policies,
// and which namespaces a process leaves alone.
package settings

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/open-policy-agent/gatekeeper/v3/pkg/wildcard"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/docket-export/docket/webhook/engine/policy"
)

// The kinds that are settings, in any version.
var (
	Config  = schema.GroupKind{Group: "config.gatekeeper.sh", Kind: "Config"}
	SyncSet = schema.GroupKind{Group: "syncset.gatekeeper.sh", Kind: "SyncSet"}
)

// A Process is a part of the engine that may leave namespaces alone.
type Process string

// The processes, by the names that a Config has for them.
const (
	Webhook Process = "webhook"
	Audit   Process = "audit"
	Sync    Process = "sync"
	every   Process = "*"
)

// Settings is what all Config and SyncSet objects say together.
type Settings struct {
	// Kinds are those whose objects are data, sorted, each once.
	Kinds    []schema.GroupVersionKind
	excluded map[Process][]wildcard.Wildcard
}

// Of returns what objects of the kinds Config and SyncSet say. An object that cannot be
// read is left out, and named by the error.
func Of(objects ...*unstructured.Unstructured) (Settings, error) {
	s := Settings{excluded: make(map[Process][]wildcard.Wildcard)}
	var failures []error
	for _, object := range objects {
		if err := s.add(object); err != nil {
			failures = append(failures, fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err))
		}
	}
	slices.SortFunc(s.Kinds, func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
	s.Kinds = slices.Compact(s.Kinds)
	return s, errors.Join(failures...)
}

func (s *Settings) add(object *unstructured.Unstructured) error {
	var content struct {
		Spec struct {
			GVKs []metav1.GroupVersionKind `json:"gvks"` // of a SyncSet
			Sync struct {
				SyncOnly []metav1.GroupVersionKind `json:"syncOnly"`
			} `json:"sync"`
			Match []struct {
				Processes          []Process           `json:"processes"`
				ExcludedNamespaces []wildcard.Wildcard `json:"excludedNamespaces"`
			} `json:"match"`
		} `json:"spec"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &content); err != nil {
		return err
	}
	for _, kind := range append(content.Spec.GVKs, content.Spec.Sync.SyncOnly...) {
		s.Kinds = append(s.Kinds, schema.GroupVersionKind(kind))
	}
	for _, match := range content.Spec.Match {
		for _, process := range match.Processes {
			s.excluded[process] = append(s.excluded[process], match.ExcludedNamespaces...)
		}
	}
	return nil
}

// Excluded reports whether a process leaves a namespace and what is in it alone, by
// Gatekeeper's rules. The empty namespace is that of cluster-scoped objects.
func (s Settings) Excluded(process Process, namespace string) bool {
	matches := func(w wildcard.Wildcard) bool { return w.Matches(namespace) }
	return slices.ContainsFunc(s.excluded[process], matches) || slices.ContainsFunc(s.excluded[every], matches)
}

// ExcludedObject is Excluded for the namespace of an object.
func (s Settings) ExcludedObject(process Process, object *unstructured.Unstructured) bool {
	return s.Excluded(process, NamespaceOf(object.GroupVersionKind().GroupKind(), object.GetNamespace(), object.GetName()))
}

// NamespaceOf is the namespace by which an object, or a request for it, is excluded or exempt: the one that it is in or, of
// a Namespace, its name. policy.ReadNamespace reads a Namespace.
func NamespaceOf(kind schema.GroupKind, namespace, name string) string {
	if policy.IsNamespace(kind) {
		return name
	}
	return namespace
}
