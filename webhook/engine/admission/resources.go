package admission

import (
	"context"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/docket-export/docket/webhook/engine/policy"
	"github.com/docket-export/docket/webhook/engine/settings"
)

// maxName is the longest name that an object of these groups may have: Gatekeeper puts it into labels.
const maxName = 63

// resourceError is why an object of ours is refused.
type resourceError struct {
	code int32
	text string
}

func (e *resourceError) Error() string { return e.text }

func refusal(code int32, format string, args ...any) *resourceError {
	return &resourceError{code: code, text: fmt.Sprintf(format, args...)}
}

// checkResource refuses templates and constraints that would not load, and objects that would have no effect. What is
// deleted, or about to be, is never refused, so that anybody can get rid of it. Status is the business of controllers.
func (h *handler) checkResource(ctx context.Context, q *request) *resourceError {
	kind := q.Kind
	switch kind.Group {
	case policy.TemplatesGroup, policy.ConstraintsGroup, settings.Config.Group, policy.ExpansionGroup, policy.MutationsGroup, policy.ExternalDataGroup:
	default:
		return nil
	}
	switch {
	case q.Operation == admissionv1.Delete, q.object.Metadata.Deletion != nil, q.SubResource != "":
		return nil
	case len(q.Name) > maxName:
		return refusal(http.StatusInternalServerError, "resource cannot have metadata.name larger than %d char; length: %d", maxName, len(q.Name))
	}
	switch kind.Group {
	case policy.ExpansionGroup:
		return refusal(http.StatusUnprocessableEntity, "docket-webhook does not expand resources: %s %q would have no effect", kind.Kind, q.Name)
	case policy.MutationsGroup:
		return refusal(http.StatusUnprocessableEntity, "docket-webhook does not mutate resources: %s %q would have no effect", kind.Kind, q.Name)
	case policy.ExternalDataGroup:
		return refusal(http.StatusUnprocessableEntity, "docket-webhook does not ask providers of external data: %s %q would have no effect", kind.Kind, q.Name)
	case settings.Config.Group:
		if kind.Kind == "Config" && q.Name != "config" {
			return refusal(http.StatusUnprocessableEntity, "config resource must have name 'config'")
		}
		return nil
	}
	if kind.Group == policy.TemplatesGroup && kind.Kind != policy.TemplateKind {
		return nil
	}
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(q.raw()); err != nil {
		return refusal(http.StatusInternalServerError, "%v", err)
	}
	if err := take(ctx, h.checks); err != nil {
		return err
	}
	defer func() { <-h.checks }()
	if err := h.Policies.Check(obj); err != nil {
		return refusal(http.StatusUnprocessableEntity, "%v", err)
	}
	return nil
}
