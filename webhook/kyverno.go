package webhook

import (
	"bytes"
	"strconv"
	"strings"
)

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
// where the part below the empty line is YAML. Releases differ in the indentation and in
// whether long lines are folded. Those of a ValidatingPolicy and of what is like it are
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

// kyvernoList reads policies, their rules and what these say. It is nil where the text
// is anything else.
func kyvernoList(text string) (list []violation) {
	lines := yamlLines(strings.Split(strings.TrimSuffix(text, "\n"), "\n"))
	for len(lines) > 0 {
		policy, ok := lines.key(0)
		if !ok || policy.rest != "" {
			return nil
		}
		lines = lines[1:]
		for indent := lines.indent(); indent > 0 && lines.indent() == indent; {
			rule, ok := lines.key(indent)
			if !ok || len(list) == maxViolations {
				return nil
			}
			var message string
			if message, lines, ok = lines.scalar(rule.rest, indent); !ok {
				return nil
			}
			list = append(list, violation{policy: policy.name, rule: rule.name, message: message})
		}
	}
	return list
}

// yamlLines are lines of YAML as Kyverno writes it: mappings in block style whose values are
// texts.
type yamlLines []string

// indent is that of the first line, -1 if there is none.
func (l yamlLines) indent() int {
	if len(l) == 0 {
		return -1
	}
	return len(l[0]) - len(strings.TrimLeft(l[0], " "))
}

type yamlKey struct{ name, rest string }

// key reads the first line, which is indented so: a name, a colon and what follows.
func (l yamlLines) key(indent int) (k yamlKey, ok bool) {
	if l.indent() != indent {
		return yamlKey{}, false
	}
	text := l[0][indent:]
	if strings.HasPrefix(text, "'") || strings.HasPrefix(text, `"`) {
		quoted, rest, ok := unquote(text)
		rest, colon := strings.CutPrefix(rest, ":")
		return yamlKey{quoted, strings.TrimLeft(rest, " ")}, ok && colon
	}
	if name, ok := strings.CutSuffix(text, ":"); ok && !strings.Contains(text, ": ") {
		return yamlKey{name: name}, name != ""
	}
	k.name, k.rest, ok = strings.Cut(text, ": ")
	return k, ok && k.name != ""
}

// scalar reads the text that begins in the first line, with first, and goes on in those
// that are indented more.
func (l yamlLines) scalar(first string, indent int) (text string, rest yamlLines, ok bool) {
	n := 1
	for n < len(l) && (l[n] == "" || l[n:].indent() > indent) {
		n++
	}
	more, rest := l[1:n], l[n:]
	switch {
	case first == "":
		return "", nil, false
	case first[0] == '|':
		text, ok = literal(first, more)
		return text, rest, ok
	}
	text = fold(first, more)
	if first[0] == '\'' || first[0] == '"' {
		quoted, more, ok := unquote(text)
		return quoted, rest, ok && more == ""
	}
	return text, rest, !strings.ContainsAny(first[:1], "&*!>%@`{[#?")
}

// fold joins lines as YAML does: a line break is a space, and an empty line a line break. A
// backslash at the end of a line, in double quotes, joins without the space.
func fold(first string, more yamlLines) string {
	text, breaks := []byte(strings.TrimRight(first, " ")), 0
	for _, line := range more {
		line = strings.Trim(line, " ")
		if line == "" {
			breaks++
			continue
		}
		switch {
		case first[0] == '"' && oddBackslashes(text):
			text = text[:len(text)-1]
		case breaks == 0:
			text = append(text, ' ')
		}
		for ; breaks > 0; breaks-- {
			text = append(text, '\n')
		}
		text = append(text, line...)
	}
	return string(text)
}

func oddBackslashes(text []byte) bool {
	return (len(text)-len(bytes.TrimRight(text, `\`)))%2 == 1
}

// literal reads a block whose line breaks stand: "|", with "-" for none at the end and "+"
// for all.
func literal(head string, lines yamlLines) (text string, ok bool) {
	indent := 0
	for i, line := range lines {
		if line != "" {
			indent = lines[i:].indent()
			break
		}
	}
	var b strings.Builder
	for _, line := range lines {
		if line != "" && len(line) < indent {
			return "", false
		}
		b.WriteString(line[min(indent, len(line)):])
		b.WriteByte('\n')
	}
	text = b.String()
	switch head {
	case "|+":
		return text, true
	case "|-":
		return strings.TrimRight(text, "\n"), true
	}
	return strings.TrimRight(text, "\n") + "\n", head == "|"
}

// unquote reads the text in quotes that s begins with. rest is what follows.
func unquote(s string) (text, rest string, ok bool) {
	if s[0] == '\'' {
		for rest = s[1:]; ; text += "'" {
			before, after, found := strings.Cut(rest, "'")
			text += before
			if rest, ok = strings.CutPrefix(after, "'"); !ok {
				return text, rest, found
			}
		}
	}
	end := 1
	for end < len(s) && s[end] != '"' {
		if s[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(s) {
		return "", "", false
	}
	text, err := strconv.Unquote(yamlEscapes.Replace(s[:end+1]))
	return text, s[end+1:], err == nil
}

// yamlEscapes makes the escapes of YAML those of Go.
var yamlEscapes = strings.NewReplacer(`\\`, `\\`, `\0`, `\x00`, `\e`, `\x1b`, `\ `, ` `, `\/`, `/`,
	`\N`, `\u0085`, `\_`, `\u00a0`, `\L`, `\u2028`, `\P`, `\u2029`, `\x`, `\u00`, "\n", `\n`)
