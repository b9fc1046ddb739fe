package decision

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/docket-export/docket/decision/rawjson"
)

// kubernetes reads an event of the Kubernetes audit log. What admission has decided is
// told by the answer, by the text of a refusal, and by annotations.
func (m *maker) kubernetes() {
	m.Engine = Kubernetes
	m.When = m.time(atRequestReceived, atStageReached)
	m.ID = m.string(atAuditID)
	m.User = m.string(atImpersonated, atUsername)
	m.Resource = NormalizedResource{
		Group:       m.string(atRefGroup),
		Version:     m.string(atRefVersion),
		Plural:      m.string(atRefPlural),
		Subresource: m.string(atRefSubresource),
		Namespace:   m.string(atRefNamespace),
		Name:        m.string(atRefName),
	}
	m.Operation = m.apiOperation()
	m.Message = m.string(atStatusMessage)
	switch code := m.statusCode(); {
	case code == 0: // not answered yet
		m.admitted()
	case code < http.StatusBadRequest:
		m.admitted()
		m.Decision = Allow
		m.passed()
	default:
		m.failed(code)
	}
}

// statusCode is 0 before there is an answer.
func (m *maker) statusCode() int {
	code, err := strconv.Atoi(string(m.raw(atStatusCode)))
	if err != nil {
		return 0
	}
	return code
}

// apiOperation returns what admission calls the request, and for one that it does not
// see the verb in capitals.
func (m *maker) apiOperation() string {
	switch m.Resource.Subresource {
	case "exec", "attach", "portforward", "proxy":
		return "CONNECT"
	}
	switch string(m.raw(atVerb).Text()) {
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
	return m.string(atVerb)
}

// admitted says that admission has to do with the request, unless it only reads.
func (m *maker) admitted() {
	switch m.Operation {
	case "CREATE", "UPDATE", "DELETE", "CONNECT":
		m.Process = Admission
	}
}

// passed reads what admission had to say of a request that it let through.
func (m *maker) passed() {
	if webhook := m.string(atFailedOpen); webhook != "" {
		m.FailedOpen = true
		m.Process, m.Policy = Admission, NormalizedPolicy{Kind: webhookKind, Name: webhook}
	}
	if f, ok := m.failure(false); ok {
		m.ofPolicy(f)
	}
}

// failed reads an answer of 400 or above. It is a decision only if it says so: a
// request can also fail for being invalid, or late.
func (m *maker) failed(code int) {
	forbidden := m.is(atAuthorized, "forbid")
	if !forbidden {
		if policy, ok := refusedBy(m.Message); ok {
			m.Decision, m.Process, m.Policy = Deny, Admission, policy
			if f, ok := m.failure(true); ok && f.decision == Deny && policy.Kind == policyKind {
				m.ofPolicy(f)
			}
			return
		}
	}
	if forbidden || code == http.StatusForbidden {
		m.Decision = Deny // by the authorizer, or by what does not give its name
		return
	}
	m.admitted()
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

func (m *maker) ofPolicy(f policyFailure) {
	m.Decision, m.Process = f.decision, Admission
	m.Policy = NormalizedPolicy{Group: policyGroup, Kind: policyKind, Name: f.name}
	m.Message = f.reason
}

// failure returns the strictest of the failures that the annotation lists, as JSON
// within a string. Of a request that was not refused nothing has denied it.
func (m *maker) failure(refused bool) (strictest policyFailure, found bool) {
	list := m.raw(atValidationFailure).Text()
	if rawjson.Value(list).Kind() != rawjson.Array {
		return policyFailure{}, false
	}
	for item := range rawjson.Items(list) {
		var f members
		if !f.readAs(inItem, item) {
			continue
		}
		d := actionsDecision(f.raw(atItemActions), refused)
		if stricter(d, strictest.decision) {
			strictest = policyFailure{d, m.unquote(f.raw(atItemPolicy)), m.unquote(f.raw(atItemMessage))}
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
