package decision

import (
	"strings"

	"github.com/docket-export/docket/decision/rawjson"
)

// opa reads an event of OPA's decision log. Its input and result have any shape; those
// of Kubernetes admission, and the results that rules of the usual names have, are
// understood.
func (m *maker) opa() {
	m.Engine = OPA
	m.When = m.time(atTimestamp)
	m.Policy.Name = strings.TrimPrefix(m.string(atPath), "/")
	m.opaInput()
	m.Decision = m.verdict(m.Policy.Name).decision()
	m.Message = m.opaMessage()
}

// opaInput reads the input, and the request of an AdmissionReview in it.
func (m *maker) opaInput() {
	m.ID = m.string(atInputUID, atDecisionID)
	m.User = m.string(atInputUsername, atInputUser)
	if !m.has(atInputUID) {
		return
	}
	m.Process = Admission
	m.Operation = m.operationOf(m.raw(atInputOperation))
	m.Resource = NormalizedResource{
		Group:       m.string(atInputKindGroup),
		Version:     m.string(atInputKindVersion),
		Kind:        m.string(atInputKindKind),
		Plural:      m.string(atInputPlural),
		Subresource: m.string(atInputSubresource),
		Namespace:   m.string(atInputNamespace, atInputObjectNamespace, atInputOldNamespace),
		Name:        m.string(atInputName, atInputObjectName, atInputOldName),
	}
}

// answer is what a rule says.
type answer uint8

const (
	silent answer = iota
	no
	yes
)

// answerOf reads the value of a rule: true or false, or the set of what was found.
func answerOf(raw rawjson.Value) answer {
	switch raw.Kind() {
	case rawjson.Boolean:
		if raw[0] == 't' {
			return yes
		}
		return no
	case rawjson.Array:
		for range rawjson.Items(raw) {
			return yes
		}
		return no
	}
	return silent
}

// flag is answerOf a rule that can only be true or false.
func flag(raw rawjson.Value) answer {
	if raw.Kind() == rawjson.Array {
		return silent
	}
	return answerOf(raw)
}

// verdict is what a result says.
type verdict struct{ allow, deny, warn answer }

// decision puts the answers together; the strictest holds. Without any there is none:
// what an undefined result means is the caller's to know.
func (v verdict) decision() Decision {
	switch {
	case v.allow == no || v.deny == yes:
		return Deny
	case v.warn == yes:
		return Warn
	case v.allow == yes || v.deny == no || v.warn == no:
		return Allow
	}
	return ""
}

// verdict reads the result of the rule at path.
func (m *maker) verdict(path string) verdict {
	raw := m.raw(atResult)
	if raw.Kind() == rawjson.Object {
		return verdict{
			allow: m.first(flag, no, atResponseAllowed, atResultAllowed, atResultAllow),
			deny:  m.first(answerOf, yes, atResultDeny, atResultDenied, atResultViolation, atResultViolations),
			warn:  m.first(answerOf, yes, atResponseWarnings, atResultWarnings, atResultWarn),
		}
	}
	switch path[strings.LastIndexByte(path, '/')+1:] {
	case "allow", "allowed":
		return verdict{allow: flag(raw)}
	case "deny", "denied", "violation", "violations":
		return verdict{deny: answerOf(raw)}
	case "warn", "warnings":
		return verdict{warn: answerOf(raw)}
	}
	return verdict{}
}

// first returns the strictest answer of ms.
func (m *maker) first(read func(rawjson.Value) answer, strictest answer, ms ...member) answer {
	said := silent
	for _, member := range ms {
		if a := read(m.raw(member)); a == strictest || said == silent {
			said = a
		}
	}
	return said
}

// opaMessage returns what the policy says of its decision.
func (m *maker) opaMessage() string {
	switch m.Decision {
	case Deny:
		return m.says(atResponseStatusMessage, atResponseStatusReason, atResultStatusMessage, atResultStatusReason,
			atResultDeny, atResultDenied, atResultViolation, atResultViolations,
			atResultReasons, atResultReason, atResultMessage, atResultMsg, atResult)
	case Warn:
		return m.says(atResponseWarnings, atResultWarnings, atResultWarn, atResult)
	case Allow:
		return m.says(atResponseStatusMessage, atResultStatusMessage, atResultReasons, atResultReason, atResultMessage, atResultMsg)
	}
	return m.says(atErrorMessage)
}

// says returns the first of ms that is a text, or a list whose first item is one, or an
// object with one.
func (m *maker) says(ms ...member) string {
	for _, member := range ms {
		raw := m.raw(member)
		if raw.Kind() == rawjson.Array {
			raw = rawjson.Get(raw, "0")
		}
		var item members
		if item.readAs(inItem, raw) {
			raw = item.raw(atItemMsg)
			if raw == nil {
				raw = item.raw(atItemMessage)
			}
		}
		if text := m.unquote(raw); text != "" {
			return text
		}
	}
	return ""
}
