package audit

import (
	"context"
	"errors"
	"hash/maphash"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/open-policy-agent/gatekeeper/v3/pkg/util"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/webhook/engine/policy"
	"github.com/docket-export/docket/webhook/engine/settings"
)

const (
	// maxExpired is how often in a row a list may expire without an object that is new.
	maxExpired = 3
	// requestTimeout is what an API server gives a request by default.
	requestTimeout = time.Minute
)

// attempts are those at a request: an API server is back within seconds of a restart.
var attempts = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.1, Steps: 5}

// retry makes attempts until one ends well, or with an error that the next would have too.
func retry(ctx context.Context, do func(context.Context) error) error {
	var last error
	err := wait.ExponentialBackoffWithContext(ctx, attempts, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		if last = do(ctx); last == nil {
			return true, nil
		}
		if expired(last) || apierrors.IsNotFound(last) || apierrors.IsForbidden(last) || apierrors.IsUnauthorized(last) || apierrors.IsMethodNotSupported(last) {
			return false, last
		}
		return false, nil
	})
	if err == nil || last == nil {
		return err
	}
	return last
}

// expired reports that a token for the next page is too old: etcd has been compacted.
func expired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// object tells the objects of a kind apart.
type object struct {
	namespace, name string
	uid             types.UID
}

// kind reviews the objects of a kind. That they cannot be listed is a fault, and no error:
// other kinds are.
func (r *run) kind(ctx context.Context, k Kind) error {
	seed, seen := maphash.MakeSeed(), map[uint64]struct{}{}
	// A list that has expired may repeat objects. Without that, two that are alike are two: manifests have no UID.
	token, stuck, repeats := "", 0, false
	for {
		var page *unstructured.UnstructuredList
		err := retry(ctx, func(ctx context.Context) (err error) {
			page, err = r.Lister.List(ctx, k, r.ChunkSize, token)
			return err
		})
		if expired(err) && stuck < maxExpired {
			// The list goes on as of now behind the last object, where the API server says how, and from its start where not.
			stuck++
			token, repeats = freshToken(err), true
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			r.faults.add(decision.NotListed, "", "%s were not all listed: %v", k.GroupVersionKind, err)
			return nil
		}
		for i := range page.Items {
			o := &page.Items[i]
			key := maphash.Comparable(seed, object{o.GetNamespace(), o.GetName(), o.GetUID()})
			if _, again := seen[key]; again && repeats {
				continue
			}
			seen[key], stuck = struct{}{}, 0
			if err := r.review(ctx, o); err != nil {
				return err
			}
		}
		if token = page.GetContinue(); token == "" {
			return nil
		}
	}
}

// freshToken is what the API server offers for a token that has expired.
func freshToken(err error) string {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return status.Status().Continue
	}
	return ""
}

// review reviews one object.
func (r *run) review(ctx context.Context, o *unstructured.Unstructured) error {
	if r.Exempt != nil && r.Exempt(settings.NamespaceOf(o.GroupVersionKind().GroupKind(), o.GetNamespace(), o.GetName())) {
		return nil
	}
	ns, err := r.namespace(ctx, o.GetNamespace())
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		r.faults.add(decision.NotListed, o.GetNamespace(), "objects of namespace %s were left out: %v", o.GetNamespace(), err)
		return nil
	}
	if ns == nil && o.GetNamespace() != "" { // a namespace goes when its last object is gone
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	verdict := r.Policies.Review(bounded, policy.Request{Object: o, Namespace: ns, Point: util.AuditEnforcementPoint, Skip: r.skip})
	if ctx.Err() != nil { // and the verdict may be a part of it
		return context.Cause(ctx)
	}
	r.report.Objects++
	for _, f := range verdict.Failures {
		r.faults.add(decision.PolicyFailed, f.ID.String(), "%s could not decide on %s %s: %v",
			f.ID, o.GetKind(), types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}, f.Err)
		if !errors.Is(f.Err, context.DeadlineExceeded) {
			continue
		}
		if r.late[f.ID]++; r.late[f.ID] == maxLate {
			r.skip[f.ID.Name] = true
			r.faults.add(decision.PolicyFailed, "", "%s was asked no more: it did not decide in time %d times", f.ID, maxLate)
		}
	}
	for i := range verdict.Violations {
		if err := r.violation(&verdict.Violations[i], o); err != nil {
			return err
		}
	}
	return nil
}

// namespace is what is known of one in this run.
type namespace struct {
	*corev1.Namespace
	err error
}

func (r *run) namespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	if name == "" {
		return nil, nil
	}
	ns, known := r.namespaces[name]
	if !known {
		ns.err = retry(ctx, func(ctx context.Context) (err error) {
			ns.Namespace, err = r.Lister.Namespace(ctx, name)
			return err
		})
		r.namespaces[name] = ns
	}
	return ns.Namespace, ns.err
}
