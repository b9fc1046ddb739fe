package client

import (
	"regexp"
	"strings"
)

// isComment reports whether nothing but a comment follows on a line.
func isComment(rest string) bool {
	trimmed := strings.TrimLeft(rest, " ")
	return trimmed == "" || trimmed[0] == '#' && len(trimmed) < len(rest)
}

// parseValue reads a value that is on one line, and the comment behind it. rest
// begins with it. text says what is wrong.
func parseValue(rest string) (v yamlValue, text string) {
	var behind string
	switch {
	case strings.HasPrefix(rest, "["):
		v, behind, text = parseList(rest)
	case strings.HasPrefix(rest, "{"):
		behind = strings.TrimLeft(rest[1:], " ")
		if !strings.HasPrefix(behind, "}") {
			return v, "mappings in braces are not supported: write one key a line below"
		}
		v, behind = yamlValue{kind: yamlMapping}, behind[1:]
	default:
		v, behind, text = parseScalar(rest, plainText)
	}
	if text == "" && !isComment(behind) {
		text = "must be put in quotes as a whole, or have nothing behind it"
	}
	return v, text
}

const onOneLine = "must be a list of texts such as [a, \"b c\"], closed on the same line"

// parseList reads "[a, b]".
func parseList(rest string) (v yamlValue, behind, text string) {
	v.kind = yamlList
	rest = strings.TrimLeft(rest[1:], " ")
	if strings.HasPrefix(rest, "]") {
		return v, rest[1:], ""
	}
	for {
		if rest == "" || strings.ContainsAny(rest[:1], ",[]{}#") {
			return v, "", onOneLine
		}
		item, behind, text := parseScalar(rest, plainItem)
		if text != "" {
			return v, "", text
		}
		v.items = append(v.items, item)
		rest = strings.TrimLeft(behind, " ")
		switch {
		case strings.HasPrefix(rest, "]"):
			return v, rest[1:], ""
		case !strings.HasPrefix(rest, ","):
			return v, "", onOneLine
		}
		rest = strings.TrimLeft(rest[1:], " ")
	}
}

// Plain text begins with nothing that is a sign to YAML, and has none of those in
// it that may be one. In brackets there are more of them.
var (
	plainText = regexp.MustCompile(`^[A-Za-z0-9/._][A-Za-z0-9/._:@%+=,~\[\]-]*`)
	plainItem = regexp.MustCompile(`^[A-Za-z0-9/._][A-Za-z0-9/._-]*`)
)

// parseScalar reads a text, of the given form if it has no quotes.
func parseScalar(rest string, form *regexp.Regexp) (v yamlValue, behind, text string) {
	switch {
	case strings.HasPrefix(rest, `"`):
		v.text, behind, text = parseDouble(rest[1:])
		return v, behind, text
	case strings.HasPrefix(rest, "'"):
		v.text, behind, text = parseSingle(rest[1:])
		return v, behind, text
	}
	v.plain, v.text = true, form.FindString(rest)
	if v.text == "" || strings.HasSuffix(v.text, ":") {
		return v, "", notPlain(rest)
	}
	return v, rest[len(v.text):], ""
}

// notPlain says what rest, which is not empty and no plain text, is meant as.
func notPlain(rest string) string {
	switch rest[0] {
	case '&':
		return "anchors (&) are not supported: write the value out where it is used, or put it in quotes"
	case '*':
		return "aliases (*) are not supported: write the value out, or put it in quotes"
	case '!':
		return "tags (!) are not supported: put the value in quotes"
	case '|', '>':
		return "text over several lines is not supported: write it on one line, in quotes"
	case '~':
		return `null (~) is not supported: write "" for an empty value, or remove the key`
	}
	return "must be put in quotes"
}

// parseSingle reads a text behind a single quote.
func parseSingle(rest string) (value, behind, text string) {
	var b strings.Builder
	for {
		before, after, ok := strings.Cut(rest, "'")
		b.WriteString(before)
		if !ok {
			return "", "", "must end with the quote it begins with, on the same line"
		}
		if !strings.HasPrefix(after, "'") {
			return b.String(), after, ""
		}
		b.WriteByte('\'')
		rest = after[1:]
	}
}

// parseDouble reads a text behind a double quote.
func parseDouble(rest string) (value, behind, text string) {
	var b strings.Builder
	for i := 0; i < len(rest); i++ {
		switch rest[i] {
		case '"':
			return b.String(), rest[i+1:], ""
		case '\\':
			i++
			if i < len(rest) && rest[i] != '"' && rest[i] != '\\' {
				return "", "", `must have no escapes but \" and \\: use single quotes, in which a backslash is one`
			}
		}
		if i < len(rest) {
			b.WriteByte(rest[i])
		}
	}
	return "", "", "must end with the quote it begins with, on the same line"
}
