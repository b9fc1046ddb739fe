package filter

import (
	"slices"
	"strings"

	"cel.dev/cel-go/common"
)

// slips are what people write who know another language, at the place of a fault.
var slips = []struct{ text, instead string }{
	{"=~", `record.NAME.matches("PATTERN")`},
	{"=", "== to compare"},
	{"&", "&&"},
	{"|", "||"},
	{"and ", "&&"},
	{"AND ", "&&"},
	{"or ", "||"},
	{"OR ", "||"},
	{"like ", `record.NAME.contains("TEXT"), or startsWith, endsWith, matches`},
	{"LIKE ", `record.NAME.contains("TEXT"), or startsWith, endsWith, matches`},
}

// hint says what to write in place of a slip at a fault; empty if it is no such. What
// other faults there are mostly follows from a slip.
func hint(expression string, at common.Location) string {
	before, rest := split(expression, at)
	before = strings.TrimRight(before, " ")
	switch {
	case strings.HasSuffix(before, "<") && strings.HasPrefix(rest, ">"):
		return "unexpected <>: write !="
	case slices.Contains([]string{"not", "NOT"}, before[strings.LastIndexAny(before, " (")+1:]):
		return "unexpected not: write !"
	}
	for _, slip := range slips {
		if strings.HasPrefix(rest, slip.text) {
			return "unexpected " + strings.TrimSpace(slip.text) + ": write " + slip.instead
		}
	}
	return ""
}

// undeclaredHint says what may be meant by a name that there is not.
func undeclaredHint(expression string, at common.Location) string {
	before, rest := split(expression, at)
	before = strings.TrimRight(before, " ")
	word := rest[:len(rest)-len(strings.TrimLeft(rest, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"))]
	switch low := strings.ToLower(word); {
	case slices.Contains([]string{"true", "false", "null"}, low):
		return "write " + low
	case strings.HasSuffix(before, "-"):
		return `write a field with a dash in its name as record["NAME"]`
	case strings.HasSuffix(before, "=") || strings.HasSuffix(before, "["):
		return `write a text in quotes, "` + word + `", and a field of the record as ` + recordVar + ".NAME"
	}
	return "fields of the record are " + recordVar + ".NAME"
}

// split parts the line of a place there.
func split(expression string, at common.Location) (before, rest string) {
	lines := strings.Split(expression, "\n")
	if at.Line() < 1 || at.Line() > len(lines) {
		return "", ""
	}
	line := []rune(lines[at.Line()-1])
	column := min(max(at.Column(), 0), len(line))
	return string(line[:column]), string(line[column:])
}
