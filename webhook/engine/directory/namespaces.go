package directory

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/docket-export/docket/webhook/engine/policy"
)

// Namespaces are those that files have, by name.
type Namespaces map[string]*corev1.Namespace

// Add adds a namespace, with the label that every API server sets.
func (n Namespaces) Add(o *unstructured.Unstructured) error {
	ns, err := policy.ReadNamespace(o)
	if err == nil {
		metav1.SetMetaDataLabel(&ns.ObjectMeta, corev1.LabelMetadataName, ns.Name)
		n[ns.Name] = ns
	}
	return err
}

// Namespace returns the namespace of that name or, where the files have none, one as kubectl create namespace makes it.
func (n Namespaces) Namespace(_ context.Context, name string) (*corev1.Namespace, error) {
	if ns := n[name]; ns != nil {
		return ns, nil
	}
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelMetadataName: name}}}, nil
}
