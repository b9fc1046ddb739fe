package decision

// docketRecord reads a Record.
func docketRecord(m members) Normalized {
	process := m.process("process")
	switch {
	case process != "":
	case m.is("eventType", ViolationAdmission), m.is("eventType", AdmissionReview):
		process = Admission
	case m.is("eventType", ViolationAudited):
		process = Audit
	}
	n := exported(m, Docket, process)
	if d := decisionOf(m.get("decision")); d != "" {
		n.Decision = d
	}
	if m.is("decision", string(Error)) {
		n.Decision = Error // which no constraint decides
	}
	if n.ID == "" {
		n.ID = m.text("requestUID", "auditID")
	}
	if n.Message == "" {
		n.Message = m.text("failure")
	}
	return n
}

// docketAudit reads docket's own records, about audits, producers and exports. It reports
// false for any other record.
func docketAudit(m members) (Normalized, bool) {
	n := Normalized{Engine: Docket}
	switch string(m.get("eventType").Text()) {
	case AuditRun:
		n.Process = Audit
		n.When, n.ID, n.Message = m.time("id"), m.text("id"), m.text("detail", "reason")
	case ExportGap:
		n.When, n.ID, n.Message = m.time("id"), m.text("id"), m.text("detail", "reason")
	case ProducerGapEvent, ProducerConflictEvent, ExportCheckpoint:
		n.When, n.Message = m.time("time"), m.text("detail")
	case AuditOpened, AuditSnapshot:
		n = change(m)
	case AuditResolved:
		n = change(m)
		n.Decision = "" // what was decided before holds no longer
	default:
		return Normalized{}, false
	}
	return n, true
}

// change reads a change of an audit's violations: what the violation says, at the time
// and under the id of the run that brought the change.
func change(m members) Normalized {
	n := exported(m.in("violation"), Docket, Audit)
	n.When, n.ID = m.time("id"), m.text("id")
	return n
}
