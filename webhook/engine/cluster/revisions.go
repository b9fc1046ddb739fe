package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/docket-export/docket/webhook/engine/policy"
)

// labelUID is the label of a ControllerRevision by which that of a policy is found.
const labelUID = "docket.dev/policy-uid"

// maxRevision is less than what etcd takes by default, 1.5 MiB, with room for JSON that is
// written differently.
const maxRevision = 1 << 20

// Revisions keeps the last valid revision of each policy in a ControllerRevision. All pods
// write the same object, by its name, so that one of them has to. It goes with its policy,
// which owns it, and when a newer one is kept.
type Revisions struct {
	objects dynamic.ResourceInterface
	log     *slog.Logger
}

// NewRevisions returns the revisions kept in namespace.
func NewRevisions(c *rest.Config, namespace string, log *slog.Logger) (*Revisions, error) {
	objects, err := dynamic.NewForConfig(c)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	return &Revisions{objects: objects.Resource(controllerRevisions).Namespace(namespace), log: log}, nil
}

// Last implements policy.Revisions. It asks the API server.
func (r *Revisions) Last(ctx context.Context, id policy.ID, uid types.UID) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list, err := r.of(ctx, uid)
	if err != nil {
		return nil, fmt.Errorf("last valid revision of %s: %w", id, err)
	}
	var newest int64
	var content map[string]any
	for _, o := range list.Items {
		if data, ok := o.Object["data"].(map[string]any); ok && generation(&o) >= newest {
			newest, content = generation(&o), data
		}
	}
	if content == nil {
		return nil, nil
	}
	last := &unstructured.Unstructured{Object: content}
	if last.GetUID() != uid || last.GetKind() != id.Kind || last.GetName() != id.Name {
		return nil, fmt.Errorf("last valid revision of %s: ControllerRevision with its labels holds %s/%s", id, last.GetKind(), last.GetName())
	}
	return last, nil
}

// Keep implements policy.Revisions. A pod that starts tries it for each policy, and finds most of them kept.
func (r *Revisions) Keep(ctx context.Context, o *unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	revision, err := revisionOf(o)
	if err != nil {
		return err
	}
	_, err = r.objects.Create(ctx, revision, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("keep revision %d of %s/%s: %w", o.GetGeneration(), o.GetKind(), o.GetName(), err)
	}
	r.prune(ctx, o, revision.GetName())
	return nil
}

// of returns all revisions of a policy.
func (r *Revisions) of(ctx context.Context, uid types.UID) (*unstructured.UnstructuredList, error) {
	return r.objects.List(ctx, metav1.ListOptions{LabelSelector: labels.Set{labelUID: string(uid)}.String()})
}

func generation(revision *unstructured.Unstructured) int64 {
	g, _, _ := unstructured.NestedInt64(revision.Object, "revision")
	return g
}

// prune removes the older revisions of o, or the new one if that is the older.
func (r *Revisions) prune(ctx context.Context, o *unstructured.Unstructured, name string) {
	list, err := r.of(ctx, o.GetUID())
	if err != nil {
		r.log.Warn("older revisions of a policy are not removed", "kind", o.GetKind(), "name", o.GetName(), "error", err)
		return
	}
	var old []string
	for _, kept := range list.Items {
		switch {
		case generation(&kept) > o.GetGeneration():
			old = []string{name}
		case kept.GetName() != name:
			old = append(old, kept.GetName())
		}
	}
	for _, name := range old {
		if err := r.objects.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			r.log.Warn("an older revision of a policy is not removed", "revision", name, "error", err)
		}
	}
}

// revisionOf returns the ControllerRevision that keeps o. Its name is that of its content.
func revisionOf(o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	what := o.GetKind() + "/" + o.GetName()
	if o.GetUID() == "" {
		return nil, errors.New("keep " + what + ": it has no UID")
	}
	content := &unstructured.Unstructured{Object: map[string]any{"spec": o.Object["spec"]}}
	content.SetGroupVersionKind(o.GroupVersionKind())
	content.SetName(o.GetName())
	content.SetUID(o.GetUID())
	content.SetGeneration(o.GetGeneration())
	content.SetLabels(o.GetLabels())
	content.SetAnnotations(o.GetAnnotations())
	text, err := json.Marshal(content.Object)
	if err != nil {
		return nil, fmt.Errorf("keep %s: %w", what, err)
	}
	if len(text) > maxRevision {
		return nil, fmt.Errorf("keep %s: its %d bytes are more than the %d that can be kept, so that a new pod will not have this revision if the next is invalid",
			what, len(text), maxRevision)
	}
	sum := sha256.Sum256(text)
	revision := &unstructured.Unstructured{Object: map[string]any{"revision": o.GetGeneration(), "data": content.Object}}
	revision.SetAPIVersion("apps/v1")
	revision.SetKind("ControllerRevision")
	revision.SetName("docket-" + hex.EncodeToString(sum[:16]))
	revision.SetLabels(map[string]string{labelUID: string(o.GetUID())})
	revision.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Name: o.GetName(), UID: o.GetUID()}})
	return revision, nil
}
