package webhook

import "strings"

// Sources: GetBlockedMessages in pkg/webhooks/utils/block.go, GetWarningMessages in
// warning.go beside it, and admissionResponse in pkg/webhooks/resource/vpol/handler.go of
// Kyverno (111e07bb, August 2026). A denial of a ClusterPolicy or Policy is
//
//	resource Pod/default/demo was blocked due to the following policies
//
//	require-labels:
//	  check-team: 'validation error: label ''team'' is required. rule check-team
//	    failed at path /metadata/labels/team/'
//
// where the part below the empty line is YAML: policies, their rules and what these say. It is
// cut at the names alone. Those of a ValidatingPolicy and of what is like it are
// "Policy p failed: m" or "Policy p error: m", joined with "; ".

const kyvernoHead = " was blocked due to the following policies"

func kyvernoViolations(message string) []violation {
	if _, list, ok := strings.Cut(message, kyvernoHead); ok {
		return kyvernoList(strings.TrimLeft(list, " \n"))
	}
	return kyvernoPolicies(message)
}

// kyvernoWarning reads "policy p.rule: m" and those of a ValidatingPolicy.
func kyvernoWarning(text string) (violation, bool) {
	if rest, ok := strings.CutPrefix(text, "policy "); ok {
		name, message, ok := strings.Cut(rest, ": ")
		dot := strings.LastIndexByte(name, '.')
		if !ok || dot < 0 {
			return violation{}, false
		}
		policy, rest, ok := cutName(name[:dot], "")
		return violation{policy: policy, rule: name[dot+1:], message: message}, ok && rest == ""
	}
	return kyvernoPolicy(text)
}

func kyvernoPolicies(text string) (list []violation) {
	const joint = "; "
	for begin, i := 0, 0; ; {
		n := strings.Index(text[i:], joint+"Policy ")
		next := i + n + len(joint)
		if n >= 0 && len(list) < maxViolations-1 {
			if _, ok := kyvernoPolicy(text[next:]); !ok { // a part of the message
				i = next
				continue
			}
		} else {
			next = len(text) + len(joint)
		}
		v, ok := kyvernoPolicy(text[begin : next-len(joint)])
		if !ok {
			return nil
		}
		list = append(list, v)
		if begin, i = next, next; next > len(text) {
			return list
		}
	}
}

func kyvernoPolicy(text string) (violation, bool) {
	rest, ok := strings.CutPrefix(text, "Policy ")
	if !ok {
		return violation{}, false
	}
	name, rest, ok := cutName(rest, " ")
	for _, verb := range []string{"failed: ", "error: "} {
		if message, found := strings.CutPrefix(rest, verb); found && ok {
			return violation{policy: name, message: message}, true
		}
	}
	return violation{}, false
}

// kyvernoList cuts the list at the names of policies and of rules. A message is the text of
// its rule as Kyverno has written it: in quotes, folded or indented, as YAML has it. The list is
// nil where the text is anything else.
func kyvernoList(text string) (list []violation) {
	policy, indent := "", 0 // of its rules; 0: none was read yet
	for line := range strings.Lines(text) {
		rest := strings.TrimLeft(line, " ")
		switch depth := len(line) - len(rest); {
		case depth == 0 && rest != "\n":
			name, rest, ok := cutName(line, ":")
			if !ok || strings.TrimSpace(rest) != "" {
				return nil
			}
			policy, indent = name, 0
		case policy != "" && indent == 0 || depth > 0 && depth == indent:
			rule, message, ok := strings.Cut(rest, ": ")
			if !ok || len(list) == maxViolations || strings.ContainsAny(rule, "'\"") {
				return nil
			}
			list = append(list, violation{policy: policy, rule: rule, message: message})
			indent = depth
		case indent == 0 || depth > 0 && depth < indent:
			return nil
		default: // the text goes on
			list[len(list)-1].message += line
		}
	}
	for i := range list {
		list[i].message = strings.TrimSuffix(list[i].message, "\n")
	}
	return list
}
