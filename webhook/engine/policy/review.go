package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/open-policy-agent/frameworks/constraint/pkg/client"
	"github.com/open-policy-agent/frameworks/constraint/pkg/client/drivers/rego"
	"github.com/open-policy-agent/frameworks/constraint/pkg/client/reviews"
	"github.com/open-policy-agent/frameworks/constraint/pkg/types"
	"github.com/open-policy-agent/gatekeeper/v3/pkg/mutation/match"
	"github.com/open-policy-agent/gatekeeper/v3/pkg/util"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// snapshot is a policy as it is enforced. Once served, nothing of it changes but its data.
type snapshot struct {
	name   string         // of the template
	client *client.Client // nil: nothing of the policy is enforced
	driver *rego.Driver
	store  *transactions
	refers bool            // to data
	kinds  [][]match.Kinds // of each constraint; an empty one matches all

	rejects *client.Client // constraints whose matches are refused
	seen    *atomic.Bool   // by a review
}

// errNotLoaded is the failure of a policy that rejects.
var errNotLoaded = errors.New("the policy could not be loaded, and rejects what it matches")

// add puts a constraint into force. p is not served yet.
func (p *snapshot) add(ctx context.Context, obj *unstructured.Unstructured) error {
	if p.client == nil {
		return &problem{NoTemplate, fmt.Errorf("template %s is not enforced", p.name)}
	}
	if _, err := p.client.AddConstraint(ctx, obj.DeepCopy()); err != nil { // which writes defaults into it
		return &problem{InvalidConstraint, err}
	}
	p.noteKinds(obj)
	return nil
}

// noteKinds notes what kinds a constraint matches, all where that cannot be read.
func (p *snapshot) noteKinds(obj *unstructured.Unstructured) {
	m, err := matchOf(obj)
	if err != nil || m == nil {
		m = &match.Match{}
	}
	p.kinds = append(p.kinds, m.Kinds)
}

// mayMatch is the first of Gatekeeper's tests, match.kindsMatch, of all constraints at once.
func (p *snapshot) mayMatch(gk schema.GroupKind) bool {
	has := func(list []string, s string) bool {
		return len(list) == 0 || slices.Contains(list, match.Wildcard) || slices.Contains(list, s)
	}
	return slices.ContainsFunc(p.kinds, func(kinds []match.Kinds) bool {
		return len(kinds) == 0 || slices.ContainsFunc(kinds, func(k match.Kinds) bool { return has(k.Kinds, gk.Kind) && has(k.APIGroups, gk.Group) })
	})
}

// input is a request in the framework's terms.
type input struct {
	request *request
	opts    []reviews.ReviewOpt
	point   string
}

func (s *Set) inputOf(r Request) (*input, error) {
	in := &input{point: r.Point, opts: []reviews.ReviewOpt{reviews.EnforcementPoint(r.Point)}}
	var req admissionv1.AdmissionRequest
	if r.Admission != nil {
		req = *r.Admission
	} else {
		text, err := r.Object.MarshalJSON()
		if err != nil {
			return nil, err
		}
		gvk := r.Object.GroupVersionKind()
		req = admissionv1.AdmissionRequest{
			Kind:   metav1.GroupVersionKind{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind},
			Object: runtime.RawExtension{Raw: text}, Name: r.Object.GetName(), Namespace: r.Object.GetNamespace(),
		}
	}
	// A namespace is in none, whatever the API server says.
	ns := r.Namespace
	if IsNamespace(schema.GroupVersionKind(req.Kind).GroupKind()) {
		req.Namespace = ""
	}
	if req.Namespace == "" {
		ns = nil
	}
	if ns != nil {
		m, err := util.NamespaceToMap(ns)
		if err != nil {
			return nil, err
		}
		in.opts = append(in.opts, reviews.Namespace(m))
	} else if req.Namespace != "" {
		ns = s.data.namespace(req.Namespace) // to match alone, as in Gatekeeper
	}
	var err error
	in.request, err = newRequest(req, ns)
	return in, err
}

// concerns says whether p may have anything to say. What is wrong with a request without objects, the policies say.
func (in *input) concerns(p *snapshot) bool {
	return in.request.unparseable != nil || len(in.request.objects) == 0 ||
		slices.ContainsFunc(in.request.objects, func(obj *unstructured.Unstructured) bool { return p.mayMatch(obj.GroupVersionKind().GroupKind()) })
}

// Review asks every policy, one after the other. One that panics, or does not decide in half of the time that ctx has left,
// is a failure; the others decide.
func (s *Set) Review(ctx context.Context, r Request) (v Verdict) {
	in, err := s.inputOf(r)
	if err != nil {
		return Verdict{Failures: []Failure{{Err: err}}}
	}
	for _, p := range *s.served.Load() {
		p.seen.Store(true)
		if !r.Skip[p.name] && in.concerns(p) {
			p.ask(ctx, in, &v)
		}
	}
	slices.SortStableFunc(v.Violations, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.Action, b.Action), cmp.Compare(a.Message, b.Message))
	})
	return v
}

// ask adds to v what p says.
func (p *snapshot) ask(ctx context.Context, in *input, v *Verdict) {
	if p.client != nil {
		results, err := p.review(ctx, p.client, in)
		if err != nil {
			v.Failures = append(v.Failures, Failure{ID{TemplateKind, p.name}, err})
		}
		for _, r := range results {
			if violation := violationOf(p, r); len(violation.Actions) > 0 || in.point != util.WebhookEnforcementPoint {
				v.Violations = append(v.Violations, violation)
			}
		}
	}
	if p.rejects != nil {
		results, err := p.review(ctx, p.rejects, in)
		if err != nil {
			v.Failures = append(v.Failures, Failure{ID{TemplateKind, p.name}, err})
		}
		for _, r := range results {
			if violation := violationOf(p, r); slices.Contains(violation.Actions, string(util.Deny)) {
				v.Failures = append(v.Failures, Failure{idOf(r.Constraint), errNotLoaded})
			}
		}
	}
}

// review asks the framework, and returns nothing but an error where the policy panics or is late.
func (p *snapshot) review(ctx context.Context, c *client.Client, in *input) (results []*types.Result, err error) {
	if end, bounded := ctx.Deadline(); bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)/2)
		defer cancel()
	}
	ctx, open := withOpen(ctx)
	defer func() {
		if r := recover(); r != nil {
			open.abort(ctx)
			results, err = nil, fmt.Errorf("panic: %v", r)
		}
	}()
	answer, err := c.Review(ctx, in.request, in.opts...)
	if err := context.Cause(ctx); err != nil { // which Rego reports as a violation
		return nil, err
	}
	if err != nil {
		return nil, err
	}
	return answer.Results(), nil
}

// violationOf keeps the actions that Gatekeeper's webhook would: those that it knows.
func violationOf(p *snapshot, r *types.Result) Violation {
	v := Violation{Constraint: r.Constraint, Template: p.name, Message: r.Msg, Details: r.Metadata["details"], Action: r.EnforcementAction}
	v.Actions = []string{v.Action}
	if v.Action == string(util.Scoped) {
		v.Actions = slices.Sorted(slices.Values(r.ScopedEnforcementActions))
	}
	v.Actions = slices.DeleteFunc(v.Actions, func(a string) bool {
		return util.ValidateEnforcementAction(util.EnforcementAction(a), r.Constraint.Object) != nil
	})
	return v
}
