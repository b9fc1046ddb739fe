// Package policy holds the policies that are enforced, and the state of each.
//
// One ConstraintTemplate with its constraints is one policy. It is compiled aside, in a client of the constraint
// framework that it shares with no other, and swapped as one pointer. So a template that cannot be loaded leaves all
// others as they were, no review waits for a compilation, and a panic is one policy's failure.
package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"time"

	"github.com/open-policy-agent/gatekeeper/v3/pkg/util"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/docket-export/docket/decision"
)

// The API groups of policies, Gatekeeper's, and those that are refused.
const (
	TemplatesGroup    = "templates.gatekeeper.sh"
	ConstraintsGroup  = "constraints.gatekeeper.sh"
	ExpansionGroup    = "expansion.gatekeeper.sh"
	MutationsGroup    = "mutations.gatekeeper.sh"
	ExternalDataGroup = "externaldata.gatekeeper.sh"
	TemplateKind      = "ConstraintTemplate"
)

// ID names a template or a constraint: {"ConstraintTemplate", "k8srequiredlabels"} or
// {"K8sRequiredLabels", "ns-must-have-gk"}.
type ID struct{ Kind, Name string }

func (id ID) String() string { return id.Kind + "/" + id.Name }

// Phase says whether a policy is enforced as its newest revision says.
type Phase string

// The phases, from the best to the worst.
const (
	Active   Phase = "Active"   // the newest revision is enforced
	Degraded Phase = "Degraded" // an older revision is enforced
	Error    Phase = "Error"    // nothing is enforced
)

// State is what became of a template or a constraint.
type State struct {
	ID
	UID             types.UID
	Phase           Phase
	Reason, Message string // of the newest revision that could not be loaded; Reason is CamelCase; empty when Active

	// Observed is the metadata.generation of the newest revision that was seen, Enforced that of the one that is
	// enforced, 0 for none.
	Observed, Enforced int64

	Since time.Time // when Phase, Reason or a generation changed last
}

// The reasons of a state that is not Active.
const (
	CompileFailed     = "CompileFailed"     // the template, or its code, is not valid
	NoTemplate        = "NoTemplate"        // the constraint's template is missing, or enforces nothing
	InvalidConstraint = "InvalidConstraint" // the constraint does not fit its template
	DataNotSynced     = "DataNotSynced"     // the template needs data of kinds that are not synced
	Unsupported       = "Unsupported"       // a kind of object, or a language, that this engine does not have
)

// OnError says what a policy whose newest revision cannot be loaded does to requests.
type OnError string

const (
	// KeepLast enforces the last valid revision, and nothing without one.
	KeepLast OnError = "KeepLast"
	// Reject enforces the last valid revision. Without one, the requests that the constraints match are failures.
	Reject OnError = "Reject"
	// Ignore enforces nothing of the policy.
	Ignore OnError = "Ignore"
)

// Revisions keeps the last valid revision of each policy where a new pod finds it. Calls may overlap.
type Revisions interface {
	// Last returns what was last kept of an object, nil for none.
	Last(ctx context.Context, id ID, uid types.UID) (*unstructured.Unstructured, error)
	// Keep is told that obj has become valid. It may be told again.
	Keep(ctx context.Context, obj *unstructured.Unstructured) error
}

// Options configure a Set.
type Options struct {
	OnError   OnError      // default: KeepLast
	Revisions Revisions    // default: last valid revisions are kept in memory alone
	Changed   func()       // called at each change of a State, from any goroutine; it must neither block nor call the Set
	Log       *slog.Logger // default: nothing is logged
}

// Request is what is to be reviewed.
type Request struct {
	Admission *admissionv1.AdmissionRequest // of a webhook; nil: Object is audited
	Object    *unstructured.Unstructured
	Namespace *corev1.Namespace // of the object; nil for cluster-scoped ones
	Point     string            // the enforcement point, such as util.WebhookEnforcementPoint
	Skip      map[string]bool   // templates that are not asked
}

// Verdict is what the policies say of a request, in Gatekeeper's order: by action, then by message.
type Verdict struct {
	Violations []Violation
	Failures   []Failure
}

// Violation is one violation of one constraint.
type Violation struct {
	Constraint *unstructured.Unstructured // shared: read only
	Template   string
	Message    string
	Details    any
	Action     string   // the constraint's: deny, warn, dryrun or scoped
	Actions    []string // those that apply at the request's enforcement point, sorted; valid ones only
}

// Failure is a policy that could not decide: it panicked, did not decide in time, or is rejected until it loads.
type Failure struct {
	ID  ID // of the constraint, or of the template for all of its constraints; empty where no policy could be asked
	Err error
}

func (f Failure) Error() string {
	if f.ID == (ID{}) {
		return f.Err.Error()
	}
	return fmt.Sprintf("policy %s: %v", f.ID, f.Err)
}
func (f Failure) Unwrap() error { return f.Err }

// lastApplied is kubectl's copy of the object, which records do not repeat.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// Record returns what is logged of v: all of it but the request.
func (v *Violation) Record() *decision.Record {
	gvk := v.Constraint.GroupVersionKind()
	r := &decision.Record{
		Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind, Name: v.Constraint.GetName(), Namespace: v.Constraint.GetNamespace(),
		Template: v.Template, Message: v.Message, EnforcementAction: v.Action,
		ConstraintAnnotations: maps.Clone(v.Constraint.GetAnnotations()),
		Decision:              v.decision(),
	}
	delete(r.ConstraintAnnotations, lastApplied)
	if v.Action == string(util.Scoped) {
		r.EnforcementActions = v.Actions
	}
	if v.Details != nil {
		// Details are what JSON held, or Rego made: they have a form in JSON.
		r.Details, _ = json.Marshal(v.Details)
	}
	return r
}

// decision is the strongest of the actions that apply.
func (v *Violation) decision() decision.Decision {
	for _, d := range []decision.Decision{decision.Deny, decision.Warn} {
		for _, a := range v.Actions {
			if strings.EqualFold(a, string(d)) {
				return d
			}
		}
	}
	return decision.DryRun
}
