package admission

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/open-policy-agent/gatekeeper/v3/pkg/util"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/webhook"
	"github.com/docket-export/docket/webhook/engine/policy"
	"github.com/docket-export/docket/webhook/engine/settings"
)

// warningCode is Gatekeeper's code of what is allowed with warnings: that of the header Warning in HTTP.
const warningCode = 299

// noOldObject is what Gatekeeper says of a DELETE of API servers before 1.15.
const noOldObject = `error reviewing resource %s: admission.k8s.gatekeeper.sh: target.HandleReview failed for ` +
	`target "admission.k8s.gatekeeper.sh": oldObject cannot be nil for DELETE operations` + "\n"

// decide answers as Handle does in pkg/webhook/policy.go of Gatekeeper 3.23: verdict, code, reason, message and
// warnings are the same.
//
// A policy that cannot decide denies the request with code 500, as an erring query does there. The API server
// takes this for a denial, whatever the webhook's failurePolicy says: a request that nobody has judged does not pass.
// Two things differ. A denial that other policies have found wins over such a failure, because its message helps the
// user. And templates and constraints that would not load are refused with code 422, see checkResource.
func (h *handler) decide(ctx context.Context, q *request) (*admissionv1.AdmissionResponse, decision.Decision, []*decision.Record) {
	if h.own(q.UserInfo.Username) {
		return allow("docket-webhook does not manage itself"), decision.Allow, nil
	}
	if err := h.checkResource(ctx, q); err != nil {
		return refuse(err.code, err), decision.Deny, nil
	}
	if h.exempt(q) {
		return allow("Namespace is set to be ignored by Gatekeeper config"), decision.Allow, nil
	}
	verdict, err := h.review(ctx, q)
	if errors.Is(err, errBusy) {
		return refuse(errBusy.code, err), decision.Error, nil
	}
	if err != nil {
		h.Log.Error("review failed", "uid", q.UID, "error", err)
		return refuse(http.StatusInternalServerError, err), decision.Error, []*decision.Record{{Decision: decision.Error, Failure: err.Error(), Message: err.Error()}}
	}
	h.logDenies(ctx, q, verdict)
	answer, outcome := answerOf(q, verdict)
	return answer, outcome, recordsOf(q, verdict)
}

// own reports whether a user is this program's: see Config.User.
func (h *handler) own(user string) bool {
	namespace := h.User[:strings.LastIndex(h.User, ":")+1]
	return h.User != "" && (user == h.User || strings.HasPrefix(namespace, "system:serviceaccount:") && strings.HasPrefix(user, namespace))
}

// exempt reports whether the namespace of the request, or the one it is for, is exempt.
func (h *handler) exempt(q *request) bool {
	return h.Exempt(settings.NamespaceOf(q.kind().GroupKind(), q.Namespace, q.object.Metadata.Name))
}

// review asks the policies. An error says that they were not asked. A kind that concerns none of them needs no turn: Leases,
// say, do not wait for a slow policy for Pods.
func (h *handler) review(ctx context.Context, q *request) (policy.Verdict, error) {
	if policy.IsNamespace(q.kind().GroupKind()) {
		q.Namespace = "" // the API server names a namespace as its own, but not with server-side apply
	}
	r := policy.Request{Admission: q.AdmissionRequest, Point: util.WebhookEnforcementPoint}
	if q.Namespace != "" {
		var err error
		if r.Namespace, err = h.Namespace(ctx, q.Namespace); err != nil {
			return policy.Verdict{}, fmt.Errorf("failed to create augmentedReview: %w", err)
		}
	}
	if q.Operation == admissionv1.Delete && q.OldObject.Raw == nil {
		return policy.Verdict{}, fmt.Errorf(noOldObject, q.Name) //nolint:staticcheck // its newline is Gatekeeper's
	}
	if h.Policies.Matches(q.kind()) {
		if err := h.takeTurn(ctx); err != nil {
			return policy.Verdict{}, err
		}
		defer func() { <-h.turns }()
	}
	return h.Policies.Review(ctx, r), nil
}

// takeTurn waits for a turn for half of the time at most: policies that decide in time alone must not be late, and deny, because
// the review has waited.
func (h *handler) takeTurn(ctx context.Context) *resourceError {
	if end, bounded := ctx.Deadline(); bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)/2)
		defer cancel()
	}
	return take(ctx, h.turns)
}

// answerOf returns the answer to what the policies say.
func answerOf(q *request, verdict policy.Verdict) (*admissionv1.AdmissionResponse, decision.Decision) {
	var denials, warnings []string
	for _, v := range verdict.Violations {
		text := fmt.Sprintf("[%s] %s", v.Constraint.GetName(), v.Message)
		for _, action := range v.Actions {
			switch action {
			case string(util.Deny):
				denials = append(denials, text)
			case string(util.Warn):
				warnings = append(warnings, text)
			}
		}
	}
	switch {
	case len(denials) > 0:
		return &admissionv1.AdmissionResponse{
			Result:   &metav1.Status{Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden, Message: strings.Join(denials, "\n")},
			Warnings: warnings,
		}, decision.Deny
	case len(verdict.Failures) > 0:
		errs := make([]error, len(verdict.Failures))
		for i, f := range verdict.Failures {
			errs[i] = f
		}
		return refuse(http.StatusInternalServerError, fmt.Errorf("error reviewing resource %s: %w", q.Name, errors.Join(errs...))), decision.Error
	}
	answer := allow("")
	if answer.Warnings = warnings; len(warnings) > 0 {
		answer.Result.Code = warningCode
	}
	return answer, decision.Allow
}

func allow(message string) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Allowed: true, Result: &metav1.Status{Code: http.StatusOK, Message: message}}
}

func refuse(code int32, err error) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Result: &metav1.Status{Code: code, Message: err.Error()}}
}

// recordsOf returns a record for each violation, and for each policy that could not decide.
func recordsOf(q *request, verdict policy.Verdict) []*decision.Record {
	records := make([]*decision.Record, 0, len(verdict.Violations)+len(verdict.Failures))
	for _, v := range verdict.Violations {
		r := v.Record()
		r.EventType = decision.ViolationAdmission
		r.ResourceLabels, r.ResourceUID = q.object.Metadata.Labels, string(q.object.Metadata.UID)
		records = append(records, r)
	}
	for _, f := range verdict.Failures {
		r := &decision.Record{Decision: decision.Error, Failure: f.Error(), Message: f.Error(), Group: policy.ConstraintsGroup, Kind: f.ID.Kind, Name: f.ID.Name}
		if r.Template = strings.ToLower(f.ID.Kind); f.ID.Kind == policy.TemplateKind {
			r.Group, r.Template = policy.TemplatesGroup, f.ID.Name
		}
		records = append(records, r)
	}
	return records
}

// The audit annotations by which the API server's log points to the records. It puts the webhook's name and a slash
// before them.
const (
	producerAnnotation = "docket-producer" // as docket's ledger names it
	recordsAnnotation  = "docket-records"  // the numbers: "17", or "17-19"
)

// record gives the records to docket and names them in the answer.
func (h *handler) record(ctx context.Context, answer *admissionv1.AdmissionResponse, records []*decision.Record) {
	first, last := webhook.Found(ctx, records...)
	if first == 0 {
		return
	}
	numbers := strconv.FormatUint(first, 10)
	if last > first {
		numbers += "-" + strconv.FormatUint(last, 10)
	}
	answer.AuditAnnotations = map[string]string{producerAnnotation: h.Client.Producer(), recordsAnnotation: numbers}
}

// logDenies logs every violation as Gatekeeper does, whatever its action.
func (h *handler) logDenies(ctx context.Context, q *request, verdict policy.Verdict) {
	if !h.LogDenies {
		return
	}
	name := q.Name
	if name == "" {
		name = q.object.Metadata.Name // the API server is still to name it
	}
	for _, v := range verdict.Violations {
		var actions []string // of Gatekeeper's: those of a scoped constraint
		if v.Action == string(util.Scoped) {
			actions = v.Actions
		}
		gvk := v.Constraint.GroupVersionKind()
		h.Log.InfoContext(ctx, "denied admission: "+v.Message,
			"semantic", true, "process", "admission", "details", v.Details, "event_type", "violation",
			"constraint_name", v.Constraint.GetName(), "constraint_group", gvk.Group, "constraint_api_version", gvk.Version,
			"constraint_kind", gvk.Kind, "constraint_action", v.Action, "constraint_enforcement_actions", actions,
			"resource_group", q.Kind.Group, "resource_api_version", q.Kind.Version,
			"resource_kind", q.Kind.Kind, "resource_namespace", q.Namespace, "resource_name", name,
			"request_username", q.UserInfo.Username)
	}
}
