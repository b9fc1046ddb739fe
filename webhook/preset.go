package webhook

import (
	"encoding/json"
	"strings"

	"github.com/docket-export/docket/decision"
)

const (
	// maxViolations is how many records a review may have. The last has the rest of the
	// message.
	maxViolations = 64
	// maxRaw is how much of the raw text all records of a review may repeat. A longer one
	// is in the first.
	maxRaw = 64 << 10
)

// violation is what one policy has said.
type violation struct {
	policy  string
	message string
	// group and kind of the policy, where the message tells them.
	group, kind string
	// rule and binding of the policy, where the engine has such.
	rule, binding string
}

// split returns the records of the violations in r, and r alone where there are none.
func (p Preset) split(r *decision.Record) []*decision.Record {
	if p == "" || r.Decision != decision.Deny && r.Decision != decision.Warn {
		return []*decision.Record{r}
	}
	var records []*decision.Record
	rest := *r // what the first record has beside its violation
	rest.Warnings = nil
	add := func(d decision.Decision, raw string, violations []violation) {
		for _, v := range violations {
			one := rest
			if len(records) > 0 {
				one.Object, one.OldObject, one.Patch, one.AuditAnnotations = nil, nil, nil, nil
			}
			one.Decision = d
			v.fill(&one, p, raw, len(records) == 0 || len(raw)*len(violations) <= maxRaw)
			records = append(records, &one)
		}
	}
	if r.Decision == decision.Deny {
		denied := p.denial(r.Message)
		if len(denied) == 0 {
			records = append(records, &rest)
		}
		add(decision.Deny, r.Message, denied)
	}
	var others []string
	for _, warning := range r.Warnings {
		v, ok := p.warning(warning)
		if !ok || len(records) >= maxViolations {
			others = append(others, warning)
			continue
		}
		add(decision.Warn, warning, []violation{v})
	}
	if len(records) == 0 || len(records) == 1 && records[0] == &rest {
		return []*decision.Record{r}
	}
	records[0].Warnings = others
	return records
}

// fill sets what v says in r. raw is the text that v is a part of.
func (v violation) fill(r *decision.Record, p Preset, raw string, withRaw bool) {
	r.Group, r.Kind, r.Name, r.Message = v.group, v.kind, v.policy, v.message
	if p == Gatekeeper {
		r.EnforcementAction = string(r.Decision)
	}
	details := struct {
		Rule       string `json:"rule,omitempty"`
		Binding    string `json:"binding,omitempty"`
		RawMessage string `json:"rawMessage,omitempty"`
	}{Rule: v.rule, Binding: v.binding}
	if withRaw {
		details.RawMessage = raw
	}
	r.Details, _ = json.Marshal(details) // texts can be encoded
}

// denial returns the violations in the message of a denial, in its order.
func (p Preset) denial(message string) []violation {
	switch p {
	case Gatekeeper:
		return gatekeeperViolations(message)
	case Kyverno:
		return kyvernoViolations(message)
	case ValidatingAdmissionPolicy:
		if v, ok := policyViolation(message); ok {
			return []violation{v}
		}
	}
	return nil
}

// warning returns the violation in a warning.
func (p Preset) warning(text string) (violation, bool) {
	switch p {
	case Gatekeeper:
		return gatekeeperViolation(text)
	case Kyverno:
		return kyvernoWarning(text)
	case ValidatingAdmissionPolicy:
		return policyViolation(text)
	}
	return violation{}, false
}

// constraintGroup is that of every constraint of Gatekeeper.
const constraintGroup = "constraints.gatekeeper.sh"

// gatekeeperViolations splits "[constraint] message" lines, of which a message may have
// several. Source: getValidationMessages and Handle in pkg/webhook/policy.go of Gatekeeper
// 3.23, which joins fmt.Sprintf("[%s] %s", constraint, message) with newlines.
func gatekeeperViolations(text string) (list []violation) {
	for text != "" {
		end := len(text)
		if len(list) < maxViolations-1 {
			end = nextConstraint(text)
		}
		v, ok := gatekeeperViolation(text[:end])
		if !ok { // the first line
			return nil
		}
		list = append(list, v)
		text = strings.TrimPrefix(text[end:], "\n")
	}
	return list
}

// nextConstraint returns where the line before the next constraint ends.
func nextConstraint(text string) int {
	for i := 0; i < len(text); {
		n := strings.Index(text[i:], "\n[")
		if n < 0 {
			break
		}
		i += n
		if _, ok := gatekeeperViolation(text[i+1:]); ok {
			return i
		}
		i += len("\n[")
	}
	return len(text)
}

func gatekeeperViolation(text string) (violation, bool) {
	text, ok := strings.CutPrefix(text, "[")
	if !ok {
		return violation{}, false
	}
	name, message, ok := cutName(text, "] ")
	return violation{group: constraintGroup, policy: name, message: message}, ok
}

// policyViolation reads what the API server says of a policy of its own. Source:
// pkg/admission/plugin/policy/validating/dispatcher.go and generic/policy_dispatcher.go of
// k8s.io/apiserver 0.37: "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: m",
// the binding being optional, and the warning "Validation failed for
// ValidatingAdmissionPolicy 'p' with binding 'b': m". An error of the API server has the name of
// what is forbidden before it.
func policyViolation(text string) (violation, bool) {
	if _, rest, ok := strings.Cut(text, " is forbidden: "); ok {
		text = rest
	}
	rest, warned := strings.CutPrefix(text, "Validation failed for ")
	rest, ok := strings.CutPrefix(rest, "ValidatingAdmissionPolicy '")
	if !ok {
		return violation{}, false
	}
	v := violation{group: "admissionregistration.k8s.io", kind: string(ValidatingAdmissionPolicy)}
	if v.policy, rest, ok = cutName(rest, "'"); !ok {
		return violation{}, false
	}
	if bound, found := strings.CutPrefix(rest, " with binding '"); found {
		if v.binding, rest, ok = cutName(bound, "'"); !ok {
			return violation{}, false
		}
	}
	before := " denied request: "
	if warned {
		before = ": "
	}
	v.message, ok = strings.CutPrefix(rest, before)
	return v, ok
}

// cutName cuts text behind the name of an object that it begins with, and after. Names of
// policies are those of Kubernetes objects: subdomains by RFC 1123.
func cutName(text, after string) (name, rest string, ok bool) {
	name = text[:len(text)-len(strings.TrimLeft(text, "abcdefghijklmnopqrstuvwxyz0123456789-."))]
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || label[0] == '-' || label[len(label)-1] == '-' {
			return "", "", false
		}
	}
	rest, ok = strings.CutPrefix(text[len(name):], after)
	return name, rest, ok && len(name) <= 253
}
