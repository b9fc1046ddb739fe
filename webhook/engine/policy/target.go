package policy

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/open-policy-agent/frameworks/constraint/pkg/core/constraints"
	"github.com/open-policy-agent/gatekeeper/v3/pkg/mutation/match"
	mutationtypes "github.com/open-policy-agent/gatekeeper/v3/pkg/mutation/types"
	"github.com/open-policy-agent/gatekeeper/v3/pkg/target"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// k8sTarget is Gatekeeper's target, but for the request: here it is parsed once and not by each constraint and policy.
type k8sTarget struct{ target.K8sValidationTarget }

// request is what the framework hands from the target to matchers and drivers.
type request struct {
	admission   admissionv1.AdmissionRequest
	objects     []*unstructured.Unstructured // the object and the old one, as far as there are any
	unparseable error
	namespace   *corev1.Namespace
	json        func() ([]byte, error) // of admission, for Rego
}

func newRequest(req admissionv1.AdmissionRequest, ns *corev1.Namespace) (*request, error) {
	if req.Operation == admissionv1.Delete {
		if req.OldObject.Raw == nil {
			return nil, target.ErrOldObjectIsNil
		}
		req.Object = req.OldObject // as Rego sees it; the CEL driver undoes it
	}
	r := &request{admission: req, namespace: ns, json: sync.OnceValues(func() ([]byte, error) { return json.Marshal(&req) })}
	for _, part := range []struct {
		name string
		raw  []byte
	}{{"object", req.Object.Raw}, {"oldObject", req.OldObject.Raw}} {
		if part.raw == nil {
			continue
		}
		obj := &unstructured.Unstructured{}
		if err := obj.UnmarshalJSON(part.raw); err != nil {
			r.unparseable = fmt.Errorf("%w: failed to unmarshal gkReview %s %s", target.ErrRequestObject, part.name, part.raw)
			break
		}
		r.objects = append(r.objects, obj)
	}
	return r, nil
}

// GetAdmissionRequest implements k8scel.ARGetter. The driver changes what it gets.
func (r *request) GetAdmissionRequest() *admissionv1.AdmissionRequest {
	c := r.admission
	return &c
}

// MarshalJSON implements json.Marshaler, for the Rego driver.
func (r *request) MarshalJSON() ([]byte, error) { return r.json() }

// HandleReview implements handler.TargetHandler.
func (t *k8sTarget) HandleReview(obj any) (bool, any, error) {
	r, ok := obj.(*request)
	return ok, r, nil
}

// ToMatcher implements handler.TargetHandler.
func (t *k8sTarget) ToMatcher(constraint *unstructured.Unstructured) (constraints.Matcher, error) {
	if _, err := t.K8sValidationTarget.ToMatcher(constraint); err != nil {
		return nil, err
	}
	m, err := matchOf(constraint)
	return matcher{m}, err
}

// matchOf reads what a constraint matches, nil for everything.
func matchOf(constraint *unstructured.Unstructured) (*match.Match, error) {
	spec, _, err := unstructured.NestedMap(constraint.Object, "spec", "match")
	if err != nil || spec == nil {
		return nil, err
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	m := &match.Match{}
	return m, json.Unmarshal(text, m)
}

// matcher is target.Matcher.
type matcher struct{ match *match.Match }

// Match implements constraints.Matcher.
func (m matcher) Match(review any) (bool, error) {
	if m.match == nil {
		return true, nil
	}
	r, ok := review.(*request)
	if !ok {
		return false, fmt.Errorf("%w: expect %T, got %T", target.ErrReviewFormat, r, review)
	}
	if r.unparseable != nil {
		return false, r.unparseable
	}
	for _, obj := range r.objects {
		matched, err := match.Matches(m.match, &match.Matchable{Object: obj, Namespace: r.namespace, Source: mutationtypes.SourceTypeOriginal})
		if err != nil {
			return false, fmt.Errorf("%w: %v :%w", target.ErrMatching, obj.GetName(), err)
		}
		if matched {
			return true, nil
		}
	}
	if len(r.objects) == 0 {
		return false, fmt.Errorf("%w: neither object nor old object are defined", target.ErrRequestObject)
	}
	return false, nil
}
