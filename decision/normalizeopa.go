package decision

import (
	"strings"

	"github.com/docket-export/docket/decision/rawjson"
)

// opaEvent reads an event of OPA's decision log. Its input and result have any shape; those
// of Kubernetes admission, and the results that rules of the usual names have, are
// understood.
func opaEvent(m members) Normalized {
	n := Normalized{
		When:   m.time("timestamp"),
		Engine: OPA,
		Policy: NormalizedPolicy{Name: strings.TrimPrefix(m.text("path"), "/")},
	}
	n.opaInput(m.in("input"))
	if n.ID == "" {
		n.ID = m.text("decision_id")
	}
	result := m.get("result")
	n.Decision = verdictOf(result, n.Policy.Name).decision()
	n.Message = opaMessage(n.Decision, result)
	if n.Decision == "" {
		n.Message = says(m.in("error").get("message"))
	}
	return n
}

// opaInput reads the input, and the request of an AdmissionReview in it.
func (n *Normalized) opaInput(input members) {
	request := input.in("request")
	n.ID = request.text("uid")
	n.User = request.in("userInfo").text("username")
	if n.User == "" {
		n.User = input.text("user")
	}
	if !request.has("uid") {
		return
	}
	kind := request.in("kind")
	n.Process = Admission
	n.Operation = request.text("operation")
	n.Resource = NormalizedResource{
		Group:       kind.text("group"),
		Version:     kind.text("version"),
		Kind:        kind.text("kind"),
		Plural:      request.in("resource").text("resource"),
		Subresource: request.text("subResource"),
		Namespace:   request.text("namespace"),
		Name:        request.text("name"),
	}
	for _, object := range []string{"object", "oldObject"} {
		if n.Resource.Namespace != "" && n.Resource.Name != "" {
			return
		}
		metadata := request.in(object).in("metadata")
		if n.Resource.Namespace == "" {
			n.Resource.Namespace = metadata.text("namespace")
		}
		if n.Resource.Name == "" {
			n.Resource.Name = metadata.text("name")
		}
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

// verdictOf reads the result of the rule at path.
func verdictOf(raw rawjson.Value, path string) verdict {
	if raw.Kind() == rawjson.Object {
		result := membersOf(raw)
		response := result.in("response")
		return verdict{
			allow: first(flag, no, response.get("allowed"), result.get("allowed"), result.get("allow")),
			deny:  first(answerOf, yes, result.get("deny"), result.get("denied"), result.get("violation"), result.get("violations")),
			warn:  first(answerOf, yes, response.get("warnings"), result.get("warnings"), result.get("warn")),
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

// first returns the strictest answer of values.
func first(read func(rawjson.Value) answer, strictest answer, values ...rawjson.Value) answer {
	said := silent
	for _, value := range values {
		if a := read(value); a == strictest || said == silent {
			said = a
		}
	}
	return said
}

// opaMessage returns what the policy says of its decision.
func opaMessage(d Decision, raw rawjson.Value) string {
	result := membersOf(raw)
	response := result.in("response")
	status, ownStatus := response.in("status"), result.in("status")
	switch d {
	case Deny:
		return says(status.get("message"), status.get("reason"), ownStatus.get("message"), ownStatus.get("reason"),
			result.get("deny"), result.get("denied"), result.get("violation"), result.get("violations"),
			result.get("reasons"), result.get("reason"), result.get("message"), result.get("msg"), raw)
	case Warn:
		return says(response.get("warnings"), result.get("warnings"), result.get("warn"), raw)
	case Allow:
		return says(status.get("message"), ownStatus.get("message"), result.get("reasons"), result.get("reason"), result.get("message"), result.get("msg"))
	}
	return ""
}

// says returns the first of values that is a text, or a list whose first item is one, or an
// object with one.
func says(values ...rawjson.Value) string {
	for _, raw := range values {
		if raw.Kind() == rawjson.Array {
			raw = rawjson.Get(raw, "0")
		}
		if item := membersOf(raw); item != nil {
			raw = item.get("msg")
			if raw == nil {
				raw = item.get("message")
			}
		}
		if text := textOf(raw); text != "" {
			return text
		}
	}
	return ""
}
