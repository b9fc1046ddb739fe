package decision

import "strings"

// gatekeeperExport reads a record of Gatekeeper's export: a violation, or the record at
// the start or the end of an audit run.
func gatekeeperExport(m members) Normalized {
	process := Audit
	if m.is("eventType", ViolationAdmission) {
		process = Admission
	}
	return exported(m, Gatekeeper, process)
}

// exported reads the members that records of Gatekeeper's export and docket's have in
// common.
func exported(m members, engine Engine, process Process) Normalized {
	n := Normalized{
		When:     m.time("timestamp"),
		Engine:   engine,
		Process:  process,
		Decision: m.enforced("enforcementAction", "enforcementActions"),
		Policy:   NormalizedPolicy{Group: m.text("group"), Kind: m.text("kind"), Name: m.text("name")},
		Resource: NormalizedResource{
			Group:       m.text("resourceGroup"),
			Version:     m.text("resourceAPIVersion"),
			Kind:        m.text("resourceKind"),
			Plural:      m.text("requestResource"),
			Subresource: m.text("requestSubresource"),
			Namespace:   m.text("resourceNamespace"),
			Name:        m.text("resourceName"),
		},
		User:      m.text("requestUsername"),
		Operation: m.text("operation"),
		ID:        m.text("id"),
		Message:   m.text("message"),
	}
	if n.When.IsZero() && process == Audit {
		n.When = m.time("id", "auditID") // an audit run is called by the second in which it began
	}
	return n
}

// deniedPrefix begins the message of each violation that the webhook logs, whether or
// not it has denied anything.
const deniedPrefix = "denied admission: "

// gatekeeperLog reads a line of Gatekeeper's log that is about an event. Those of
// processes other than admission and audit are none of a policy.
func gatekeeperLog(m members) (Normalized, bool) {
	process := m.process("process")
	if process == "" {
		return Normalized{}, false
	}
	n := Normalized{
		When:    epoch(m.get("ts")),
		Engine:  Gatekeeper,
		Process: process,
		Policy:  NormalizedPolicy{Group: m.text("constraint_group"), Kind: m.text("constraint_kind"), Name: m.text("constraint_name")},
		Resource: NormalizedResource{
			Group:     m.text("resource_group"),
			Version:   m.text("resource_api_version"),
			Kind:      m.text("resource_kind"),
			Namespace: m.text("resource_namespace"),
			Name:      m.text("resource_name"),
		},
		User:    m.text("request_username"),
		ID:      m.text("audit_id"),
		Message: strings.TrimPrefix(m.text("msg"), deniedPrefix),
	}
	if m.is("event_type", "violation") || m.is("event_type", ViolationAudited) {
		n.Decision = m.enforced("constraint_action", "constraint_enforcement_actions")
	}
	return n, true
}
