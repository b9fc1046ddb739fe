package decision

import (
	"slices"
	"time"

	"github.com/docket-export/docket/decision/rawjson"
)

// Engine is the kind of program that a record is from.
type Engine string

// The engines that Normalize knows.
const (
	Gatekeeper Engine = "gatekeeper"
	OPA        Engine = "opa"
	Kubernetes Engine = "kubernetes" // the API server
	Docket     Engine = "docket"
)

// Normalized is what the records of different engines have in common: who did what to
// which resource, which policy had what to say about it, and when. A field is empty
// where the record does not say: nothing is guessed. docs/normalized.md has the
// members that each field is taken from.
type Normalized struct {
	// When it was decided; the zero time where the record does not say. The violations
	// of an audit have the time at which the audit began.
	When   time.Time `json:"when,omitzero"`
	Engine Engine    `json:"engine,omitempty"`
	// Process is empty for what neither admission nor an audit decides.
	Process Process `json:"process,omitempty"`
	// Decision is what the policy says of the resource. With Process Audit it has kept
	// nothing from happening.
	Decision Decision           `json:"decision,omitempty"`
	Policy   NormalizedPolicy   `json:"policy,omitzero"`
	Resource NormalizedResource `json:"resource,omitzero"`
	// User is the name that the request was decided for, the impersonated one if so.
	User string `json:"user,omitempty"`
	// Operation is CREATE, UPDATE, DELETE or CONNECT; of the API server's other
	// requests GET, LIST or WATCH.
	Operation string `json:"operation,omitempty"`
	// ID groups what belongs together: the UID of the request, or the audit's id.
	ID      string `json:"id,omitempty"`
	Message string `json:"message,omitempty"`
	// FailedOpen: a webhook could not be asked, and the request was let through by that
	// webhook's failurePolicy. Nobody has decided.
	FailedOpen bool `json:"failedOpen,omitempty"`
}

// NormalizedPolicy names a policy.
type NormalizedPolicy struct {
	Group string `json:"group,omitempty"`
	Kind  string `json:"kind,omitempty"`
	Name  string `json:"name,omitempty"`
}

// NormalizedResource names what was decided about. Kind and Plural are two names of one
// type, and some engines tell only one of them.
type NormalizedResource struct {
	Group       string `json:"group,omitempty"` // empty for the core group as well
	Version     string `json:"version,omitempty"`
	Kind        string `json:"kind,omitempty"`   // "Pod"
	Plural      string `json:"plural,omitempty"` // "pods"
	Subresource string `json:"subresource,omitempty"`
	Namespace   string `json:"namespace,omitempty"`
	Name        string `json:"name,omitempty"`
}

// Normalize returns the common form of a record. It knows Gatekeeper's export and log lines, OPA's
// decision logs, events of the Kubernetes audit log, and docket's own records. It reports false for
// everything else.
//
// record is neither changed nor kept. Names of members are compared as they are, and of members of one name
// the last counts, as encoding/json does it for a map. Invalid JSON causes no panic. The result means nothing then.
func Normalize(record []byte) (Normalized, bool) {
	m := membersOf(record)
	// Whose record it is show members that no other has. Only Gatekeeper's records around
	// an audit run are known by what they say.
	switch {
	case m.has("schemaVersion"):
		return docketRecord(m), true
	case m.has("decision_id"):
		return opaEvent(m), true
	case m.has("auditID") && m.has("stage"):
		return kubernetesEvent(m), true
	case m.is("eventType", ViolationAudited), m.is("eventType", ViolationAdmission),
		!m.has("eventType") && (m.is("message", "audit is started") || m.is("message", "audit is completed")):
		return gatekeeperExport(m), true
	case m.has("event_type") && m.has("msg"):
		return gatekeeperLog(m)
	}
	return docketAudit(m)
}

// NormalizedPrefix begins the name of a field of Normalized where a field of the record
// is also possible: "normalized.resource.namespace".
const NormalizedPrefix = "normalized."

// normalizedFields are the fields of Normalized by name, each as text.
var normalizedFields = []struct {
	name string
	text func(Normalized) string
}{
	{"when", func(n Normalized) string {
		if n.When.IsZero() {
			return ""
		}
		return n.When.UTC().Format(time.RFC3339Nano)
	}},
	{"engine", func(n Normalized) string { return string(n.Engine) }},
	{"process", func(n Normalized) string { return string(n.Process) }},
	{"decision", func(n Normalized) string { return string(n.Decision) }},
	{"policy.group", func(n Normalized) string { return n.Policy.Group }},
	{"policy.kind", func(n Normalized) string { return n.Policy.Kind }},
	{"policy.name", func(n Normalized) string { return n.Policy.Name }},
	{"resource.group", func(n Normalized) string { return n.Resource.Group }},
	{"resource.version", func(n Normalized) string { return n.Resource.Version }},
	{"resource.kind", func(n Normalized) string { return n.Resource.Kind }},
	{"resource.plural", func(n Normalized) string { return n.Resource.Plural }},
	{"resource.subresource", func(n Normalized) string { return n.Resource.Subresource }},
	{"resource.namespace", func(n Normalized) string { return n.Resource.Namespace }},
	{"resource.name", func(n Normalized) string { return n.Resource.Name }},
	{"user", func(n Normalized) string { return n.User }},
	{"operation", func(n Normalized) string { return n.Operation }},
	{"id", func(n Normalized) string { return n.ID }},
	{"message", func(n Normalized) string { return n.Message }},
	{"failedOpen", func(n Normalized) string {
		if !n.FailedOpen {
			return ""
		}
		return "true"
	}},
}

// NormalizedFields are the names of the fields that Field knows.
func NormalizedFields() []string {
	names := make([]string, len(normalizedFields))
	for i, f := range normalizedFields {
		names[i] = f.name
	}
	return names
}

// Field returns the field called name as text: When as RFC 3339 in UTC, FailedOpen as
// "true". It is empty where the record does not say, and for an unknown name.
func (n *Normalized) Field(name string) string {
	for _, f := range normalizedFields {
		if f.name == name {
			return f.text(*n) // not n, which would be allocated
		}
	}
	return ""
}

var decisions = [...]Decision{Deny, Warn, DryRun, Allow} // the strictest first

// decisionOf returns the decision that raw names, "" for another word. Those are
// Gatekeeper's enforcement actions too.
func decisionOf(raw rawjson.Value) Decision {
	if d := Decision(raw.Text()); slices.Contains(decisions[:], d) {
		return d
	}
	return ""
}

// enforced returns the decision of a constraint: its action or, when that is scoped,
// the strictest of those that were in force here.
func (m members) enforced(action, actions string) Decision {
	if !m.is(action, "scoped") {
		return decisionOf(m.get(action))
	}
	strictest := Decision("")
	list := m.get(actions)
	if list.Kind() != rawjson.Array {
		return ""
	}
	for item := range rawjson.Items(list) {
		if d := decisionOf(item); stricter(d, strictest) {
			strictest = d
		}
	}
	return strictest
}

// stricter reports whether a goes before b, which may be none.
func stricter(a, b Decision) bool {
	for _, d := range decisions {
		if a == d || b == d {
			return a == d && b != d
		}
	}
	return false
}

// process returns the process that name names.
func (m members) process(name string) Process {
	switch p := Process(m.get(name).Text()); p {
	case Admission, Audit:
		return p
	}
	return ""
}
