package podstatus

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/docket-export/docket/webhook/engine/policy"
)

// writerPause is such that a pod writes once for a template and its constraints, which change within a fraction of a second.
const writerPause = 200 * time.Millisecond

// maxMessage bounds an error in bytes, so that hundreds of broken policies fit into one object, which etcd bounds to 1.5 MiB.
const maxMessage = 2048

// Policies is what the Writer needs of policy.Set.
type Policies interface {
	States() []policy.State
}

// WriterConfig is what a Writer needs. UID is that of the pod.
type WriterConfig struct {
	Client         dynamic.Interface
	Namespace, Pod string
	UID            types.UID
	Operations     []string // webhook, audit, status
	Log            *slog.Logger
}

// Writer keeps the PolicyPodStatus of one pod equal to the states of its policies.
type Writer struct {
	WriterConfig
	changed signal
	deleted atomic.Bool // somebody has deleted the object
	written *Status     // nil: none is known to be there. Owned by Run
}

// NewWriter returns a Writer that does nothing before Run.
func NewWriter(c WriterConfig) *Writer {
	return &Writer{WriterConfig: c, changed: newSignal(writerPause)}
}

// Changed says that the state of a policy is another. It does not block, and may be called at any time.
func (w *Writer) Changed() { w.changed.set() }

// Run writes until ctx is done, and returns nil then. Failures are logged and retried: no request depends on the status.
func (w *Writer) Run(ctx context.Context, policies Policies) error {
	mine := func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", w.Pod).String()
	}
	informer := dynamicinformer.NewFilteredDynamicInformer(w.Client, Resource, w.Namespace, 0, cache.Indexers{}, mine).Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: func(any) {
		w.deleted.Store(true)
		w.changed.set()
	}})
	if err != nil {
		return fmt.Errorf("pod status: watch own object: %w", err)
	}
	watching := make(chan struct{})
	go func() { defer close(watching); informer.Run(ctx.Done()) }()
	defer func() { <-watching }()
	// What is deleted before the watch begins would stay so.
	cache.WaitForCacheSync(ctx.Done(), informer.HasSynced)
	w.changed.set()
	w.changed.each(ctx, w.Log, "write pod status", func(ctx context.Context) error {
		return w.write(ctx, policies.States())
	})
	return nil
}

// write makes the object say states. It asks the API server for nothing if the object says so already.
func (w *Writer) write(ctx context.Context, states []policy.State) error {
	if w.deleted.Swap(false) {
		w.written = nil
	}
	status := w.status(states)
	if w.written != nil && reflect.DeepEqual(*w.written, status) {
		return nil
	}
	o := PolicyPodStatus{
		TypeMeta: metav1.TypeMeta{APIVersion: Resource.GroupVersion().String(), Kind: "PolicyPodStatus"},
		ObjectMeta: metav1.ObjectMeta{
			Name: w.Pod, Namespace: w.Namespace,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: w.Pod, UID: w.UID}},
		},
		Status: status,
	}
	if err := w.put(ctx, o); err != nil {
		w.written = nil // it may be there all the same
		return err
	}
	w.written = &status
	return nil
}

// put creates the object or replaces its status. A merge patch without a resource version never conflicts: nobody else
// writes this object.
func (w *Writer) put(ctx context.Context, o PolicyPodStatus) error {
	client := w.Client.Resource(Resource).Namespace(w.Namespace)
	create := func() error {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&o)
		if err != nil {
			return err
		}
		_, err = client.Create(ctx, &unstructured.Unstructured{Object: content}, metav1.CreateOptions{})
		return err
	}
	if w.written == nil {
		// The object is there already when the container has restarted.
		if err := create(); !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"ownerReferences": o.OwnerReferences}, // of a pod that had the same name
		"status":   o.Status,
	})
	if err != nil {
		return err
	}
	if _, err = client.Patch(ctx, w.Pod, types.MergePatchType, patch, metav1.PatchOptions{}); apierrors.IsNotFound(err) {
		return create()
	}
	return err
}

func (w *Writer) status(states []policy.State) Status {
	s := Status{Operations: w.Operations, Policies: make([]Policy, 0, len(states))}
	for _, state := range states {
		p := Policy{
			Kind: state.Kind, Name: state.Name, UID: state.UID,
			ObservedGeneration: state.Observed, EnforcedGeneration: state.Enforced,
			Phase: state.Phase, Reason: state.Reason, Since: state.Since.UTC().Format(time.RFC3339),
		}
		if state.Reason != "" {
			p.Errors = []Error{{Code: state.Reason, Message: shorten(state.Message)}}
		}
		s.Policies = append(s.Policies, p)
	}
	return s
}

func shorten(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage], "") + "..."
}
