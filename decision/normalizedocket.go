package decision

// docketRecord reads a Record.
func (m *maker) docketRecord() {
	m.Engine = Docket
	m.Process = processOf(m.raw(atProcess))
	switch {
	case m.Process != "":
	case m.is(atEventType, ViolationAdmission), m.is(atEventType, AdmissionReview):
		m.Process = Admission
	case m.is(atEventType, ViolationAudited):
		m.Process = Audit
	}
	m.Decision = decisionOf(m.raw(atDecided))
	switch {
	case m.is(atDecided, string(Error)):
		m.Decision = Error // which no constraint decides
	case m.Decision == "":
		m.Decision = m.enforced(atEnforcementAction, atEnforcementActions)
	}
	m.exported()
	if m.ID == "" {
		m.ID = m.string(atRequestUID, atAuditID)
	}
	if m.Message == "" {
		m.Message = m.string(atFailure)
	}
}

// docketAudit reads docket's own records, about audits, producers and exports. It reports
// false for any other record.
func (m *maker) docketAudit() bool {
	switch {
	case m.is(atEventType, AuditRun):
		m.Engine, m.Process = Docket, Audit
		m.When, m.ID = m.time(atID), m.string(atID)
		m.Message = m.string(atDetail, atReason)
	case m.is(atEventType, ExportGap):
		m.Engine = Docket
		m.When, m.ID = m.time(atID), m.string(atID)
		m.Message = m.string(atDetail, atReason)
	case m.is(atEventType, ProducerGapEvent), m.is(atEventType, ProducerConflictEvent), m.is(atEventType, ExportCheckpoint):
		m.Engine = Docket
		m.When, m.Message = m.time(atTime), m.string(atDetail)
	case m.is(atEventType, AuditOpened), m.is(atEventType, AuditSnapshot):
		m.change()
	case m.is(atEventType, AuditResolved):
		m.change()
		m.Decision = "" // what was decided before holds no longer
	default:
		return false
	}
	return true
}

// change reads a change of an audit's violations: what the violation says, at the time
// and under the id of the run that brought the change.
func (m *maker) change() {
	var v maker
	if v.readAs(inRecord, m.raw(atViolation)) {
		v.Process = Audit
		v.Decision = v.enforced(atEnforcementAction, atEnforcementActions)
		v.exported()
		m.Normalized = v.Normalized
	}
	m.Engine, m.Process = Docket, Audit
	m.When, m.ID = m.time(atID), m.string(atID)
}
