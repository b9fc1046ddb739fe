package decision

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/docket-export/docket/decision/rawjson"
)

// kubernetesEvent reads an event of the Kubernetes audit log. What admission has decided is
// told by the answer, by the text of a refusal, and by annotations.
func kubernetesEvent(m members) Normalized {
	ref, status, annotations := m.in("objectRef"), m.in("responseStatus"), m.in("annotations")
	n := Normalized{
		When:   m.time("requestReceivedTimestamp", "stageTimestamp"),
		Engine: Kubernetes,
		User:   m.in("impersonatedUser").text("username"),
		ID:     m.text("auditID"),
		Resource: NormalizedResource{
			Group:       ref.text("apiGroup"),
			Version:     ref.text("apiVersion"),
			Plural:      ref.text("resource"),
			Subresource: ref.text("subresource"),
			Namespace:   ref.text("namespace"),
			Name:        ref.text("name"),
		},
		Message: status.text("message"),
	}
	if n.User == "" {
		n.User = m.in("user").text("username")
	}
	n.Operation = apiOperation(m.text("verb"), n.Resource.Subresource)
	code, err := strconv.Atoi(string(status.get("code")))
	answered := err == nil && code != 0
	switch {
	case answered && code >= http.StatusBadRequest:
		n.failed(code, annotations)
		return n
	case isAdmitted(n.Operation):
		n.Process = Admission
	}
	if answered {
		n.Decision = Allow
		n.passed(annotations)
	}
	return n
}

// apiOperation returns what admission calls the request, and for one that it does not
// see the verb in capitals.
func apiOperation(verb, subresource string) string {
	switch subresource {
	case "exec", "attach", "portforward", "proxy":
		return "CONNECT"
	}
	switch verb {
	case "create":
		return "CREATE"
	case "update", "patch":
		return "UPDATE"
	case "delete", "deletecollection":
		return "DELETE"
	case "get":
		return "GET"
	case "list":
		return "LIST"
	case "watch":
		return "WATCH"
	}
	return verb
}

// passed reads what admission had to say of a request that it let through.
func (n *Normalized) passed(annotations members) {
	for _, a := range annotations {
		if webhook := textOf(a.value); strings.HasPrefix(string(a.name), "failed-open.") && webhook != "" {
			n.FailedOpen = true
			n.Process, n.Policy = Admission, NormalizedPolicy{Kind: webhookKind, Name: webhook}
		}
	}
	if f, ok := strictestFailure(annotations, false); ok {
		n.ofPolicy(f)
	}
}

// failed reads an answer of 400 or above. It is a decision only if it says so: a
// request can also fail for being invalid, or late.
func (n *Normalized) failed(code int, annotations members) {
	forbidden := annotations.is("authorization.k8s.io/decision", "forbid")
	if policy, ok := refusedBy(n.Message); ok && !forbidden {
		n.Decision, n.Process, n.Policy = Deny, Admission, policy
		if f, ok := strictestFailure(annotations, true); ok && f.decision == Deny && policy.Kind == policyKind {
			n.ofPolicy(f)
		}
		return
	}
	switch {
	case forbidden || code == http.StatusForbidden:
		n.Decision = Deny // by the authorizer, or by what does not give its name
	case isAdmitted(n.Operation):
		n.Process = Admission
	}
}

// isAdmitted reports whether admission sees requests of that operation.
func isAdmitted(operation string) bool {
	switch operation {
	case "CREATE", "UPDATE", "DELETE", "CONNECT":
		return true
	}
	return false
}

// Kinds of policies that no constraint is. That of a webhook is not one of Kubernetes,
// which does not say here in which configuration the webhook stands.
const (
	policyGroup     = "admissionregistration.k8s.io"
	policyKind      = "ValidatingAdmissionPolicy"
	webhookKind     = "Webhook"
	podSecurityKind = "PodSecurity"
)

// refusedBy returns the policy that a message of the API server names as the one which
// has refused the request.
func refusedBy(message string) (NormalizedPolicy, bool) {
	if rest, ok := strings.CutPrefix(message, `admission webhook "`); ok {
		name, rest, ok := strings.Cut(rest, `"`)
		if ok && strings.HasPrefix(rest, " denied the request") {
			return NormalizedPolicy{Kind: webhookKind, Name: name}, true
		}
	}
	// Others stand behind the name of what is forbidden.
	if _, rest, ok := strings.Cut(message, " is forbidden: "); ok {
		message = rest
	}
	if rest, ok := strings.CutPrefix(message, policyKind+" '"); ok {
		name, rest, ok := strings.Cut(rest, "'")
		if ok && strings.Contains(rest, " denied request") {
			return NormalizedPolicy{Group: policyGroup, Kind: policyKind, Name: name}, true
		}
	}
	if rest, ok := strings.CutPrefix(message, `violates PodSecurity "`); ok {
		name, _, ok := strings.Cut(rest, `"`)
		return NormalizedPolicy{Kind: podSecurityKind, Name: name}, ok
	}
	return NormalizedPolicy{}, false
}

// policyFailure is a ValidatingAdmissionPolicy that a request did not comply with.
type policyFailure struct {
	decision     Decision
	name, reason string
}

func (n *Normalized) ofPolicy(f policyFailure) {
	n.Decision, n.Process = f.decision, Admission
	n.Policy = NormalizedPolicy{Group: policyGroup, Kind: policyKind, Name: f.name}
	n.Message = f.reason
}

// strictestFailure returns the strictest of the failures that the annotation lists, as JSON
// within a string. Of a request that was not refused nothing has denied it.
func strictestFailure(annotations members, refused bool) (strictest policyFailure, found bool) {
	list := annotations.get("validation.policy.admission.k8s.io/validation_failure").Text()
	if rawjson.Value(list).Kind() != rawjson.Array {
		return policyFailure{}, false
	}
	for item := range rawjson.Items(list) {
		f := membersOf(item)
		d := actionsDecision(f.get("validationActions"), refused)
		if stricter(d, strictest.decision) {
			strictest = policyFailure{d, f.text("policy"), f.text("message")}
			found = true
		}
	}
	return strictest, found
}

// actionsDecision returns what validationActions come to: Audit is what Gatekeeper makes
// of dryrun.
func actionsDecision(actions rawjson.Value, refused bool) (strictest Decision) {
	if actions.Kind() != rawjson.Array {
		return ""
	}
	for item := range rawjson.Items(actions) {
		d := Decision("")
		switch string(item.Text()) {
		case "Deny":
			if refused {
				d = Deny
			}
		case "Warn":
			d = Warn
		case "Audit":
			d = DryRun
		}
		if stricter(d, strictest) {
			strictest = d
		}
	}
	return strictest
}
