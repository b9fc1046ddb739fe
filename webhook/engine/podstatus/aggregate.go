package podstatus

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/docket-export/docket/webhook/engine/policy"
)

// Reasons of the aggregate that no pod can report of itself. A policy whose pods report one has theirs.
const (
	NoPods         = "NoPods"         // nothing enforces the policy
	NoStatus       = "NoStatus"       // a pod does not know the policy, or has not said so yet
	PodTerminating = "PodTerminating" // a pod that is to stop may still answer
	NotObserved    = "NotObserved"    // a pod has not seen the newest generation
)

// member is a pod that holds policies, and what it says of them.
type member struct {
	name        string
	terminating bool
	operations  []string
	policies    map[reference]Policy
}

// reference is a policy as a pod knows it. One that is deleted and created again is another.
type reference struct {
	kind, name string
	uid        types.UID
}

// summary is what the Aggregator writes into the status of a template or constraint.
type summary struct {
	ByPod  []entry   `json:"byPod"`
	Docket aggregate `json:"docket"`
}

// entry has Gatekeeper's fields, and the enforced generation, the phase and its reason.
type entry struct {
	ID                 string       `json:"id"`
	TemplateUID        types.UID    `json:"templateUID,omitempty"`
	ConstraintUID      types.UID    `json:"constraintUID,omitempty"`
	ObservedGeneration int64        `json:"observedGeneration"`
	EnforcedGeneration int64        `json:"enforcedGeneration"`
	Operations         []string     `json:"operations,omitempty"`
	Phase              policy.Phase `json:"phase"`
	Reason             string       `json:"reason,omitempty"`
	Since              string       `json:"since,omitempty"`
	Errors             []Error      `json:"errors,omitempty"`
}

// aggregate says how far the policy is enforced. No field is ever left out: a merge patch would keep its last value.
type aggregate struct {
	Phase     policy.Phase `json:"phase"`
	Reason    string       `json:"reason"`
	Pods      int64        `json:"pods"`      // entries of byPod
	Enforcing int64        `json:"enforcing"` // those that enforce the newest generation
}

// summarize joins what the pods say of one template or constraint.
//
// byPod has exactly the pods that are there to stay. One that says nothing of the policy counts as Error, ready or not.
// A pod with a deletionTimestamp has no entry, but counts as Error until it is gone: it may answer requests until then.
func summarize(o *unstructured.Unstructured, members []member) summary {
	s := summary{ByPod: []entry{}}
	var failed, behind, total int
	why := finding{reason: NoPods}
	for _, m := range members {
		p, known := m.policies[reference{o.GetKind(), o.GetName(), o.GetUID()}]
		switch {
		case m.terminating:
			total, failed = total+1, failed+1
			why = worse(why, finding{1, PodTerminating})
			continue
		case !known:
			p = Policy{Phase: policy.Error, Reason: NoStatus}
		}
		total++
		s.ByPod = append(s.ByPod, newEntry(o, m, p))
		if p.EnforcedGeneration == o.GetGeneration() {
			s.Docket.Enforcing++
		}
		switch {
		case !known:
			failed++
			why = worse(why, finding{4, NoStatus})
		case p.Phase == policy.Error:
			failed++
			why = worse(why, finding{5, p.Reason})
		case p.Phase == policy.Degraded:
			behind++
			why = worse(why, finding{3, p.Reason})
		case p.ObservedGeneration != o.GetGeneration():
			behind++
			why = worse(why, finding{2, NotObserved})
		}
	}
	s.Docket.Pods, s.Docket.Reason = int64(len(s.ByPod)), why.reason
	switch {
	case failed == total:
		s.Docket.Phase = policy.Error
	case failed+behind > 0:
		s.Docket.Phase = policy.Degraded
	default:
		s.Docket.Phase, s.Docket.Reason = policy.Active, ""
	}
	return s
}

// finding is why a policy is not Active. That with the highest rank is told.
type finding struct {
	rank   int
	reason string
}

// worse returns the first of those with the higher rank.
func worse(a, b finding) finding {
	if b.rank > a.rank {
		return b
	}
	return a
}

func newEntry(o *unstructured.Unstructured, m member, p Policy) entry {
	e := entry{
		ID: m.name, Operations: m.operations,
		ObservedGeneration: p.ObservedGeneration, EnforcedGeneration: p.EnforcedGeneration,
		Phase: p.Phase, Reason: p.Reason, Since: p.Since, Errors: p.Errors,
	}
	if o.GetKind() == policy.TemplateKind {
		e.TemplateUID = p.UID
	} else {
		e.ConstraintUID = p.UID
	}
	return e
}
