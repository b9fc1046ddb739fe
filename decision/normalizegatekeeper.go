package decision

import "strings"

// gatekeeperExport reads a record of Gatekeeper's export: a violation, or the record at
// the start or the end of an audit run.
func (m *maker) gatekeeperExport() {
	m.Engine, m.Process = Gatekeeper, Audit
	if m.is(atEventType, ViolationAdmission) {
		m.Process = Admission
	}
	m.Decision = m.enforced(atEnforcementAction, atEnforcementActions)
	m.exported()
}

// exported reads the members that records of Gatekeeper's export and docket's have in
// common.
func (m *maker) exported() {
	m.When = m.time(atTimestamp)
	if m.When.IsZero() && m.Process == Audit {
		m.When = m.time(atID, atAuditID) // an audit run is called by the second in which it began
	}
	m.Policy = NormalizedPolicy{Group: m.string(atGroup), Kind: m.string(atKind), Name: m.string(atName)}
	m.Resource = NormalizedResource{
		Group:       m.string(atResourceGroup),
		Version:     m.string(atResourceAPIVersion),
		Kind:        m.string(atResourceKind),
		Plural:      m.string(atRequestResource),
		Subresource: m.string(atRequestSubresource),
		Namespace:   m.string(atResourceNamespace),
		Name:        m.string(atResourceName),
	}
	m.User = m.string(atRequestUsername)
	m.Operation = m.operationOf(m.raw(atOperation))
	m.ID = m.string(atID)
	m.Message = m.string(atMessage)
}

// deniedPrefix begins the message of each violation that the webhook logs, whether or
// not it has denied anything.
const deniedPrefix = "denied admission: "

// gatekeeperLog reads a line of Gatekeeper's log that is about an event. Those of
// processes other than admission and audit are none of a policy.
func (m *maker) gatekeeperLog() bool {
	m.Process = processOf(m.raw(atProcess))
	if m.Process == "" {
		return false
	}
	m.Engine = Gatekeeper
	m.When = epoch(m.raw(atLogTime))
	if m.is(atLogEventType, "violation") || m.is(atLogEventType, ViolationAudited) {
		m.Decision = m.enforced(atLogAction, atLogActions)
	}
	m.Policy = NormalizedPolicy{Group: m.string(atLogGroup), Kind: m.string(atLogKind), Name: m.string(atLogName)}
	m.Resource = NormalizedResource{
		Group:     m.string(atLogResourceGroup),
		Version:   m.string(atLogResourceVersion),
		Kind:      m.string(atLogResourceKind),
		Namespace: m.string(atLogResourceNamespace),
		Name:      m.string(atLogResourceName),
	}
	m.User = m.string(atLogUsername)
	m.ID = m.string(atLogAuditID)
	m.Message = strings.TrimPrefix(m.string(atLogMessage), deniedPrefix)
	return true
}
