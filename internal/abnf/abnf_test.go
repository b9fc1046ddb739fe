package abnf

import (
	"strings"
	"testing"
)

func TestMatch(t *testing.T) {
	g, err := Parse(`
word   = 1*ALPHA           ; a remark with "quotes"
list   = word *("," word)
       / %s"None"
pair   = "<" [list] ">" / 2DIGIT / %x0D.0A
semi   = ";"
nested = "(" *nested ")"
wide   = 1*3%x20-10FFFF
`)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		"list a,bc":     true,
		"list a,":       false,
		"list None":     true,
		"word none":     true,
		"pair <>":       true,
		"pair <a,b>":    true,
		"pair <a":       false,
		"pair 12":       true,
		"pair 123":      false,
		"pair \r\n":     true,
		"semi ;":        true,
		"nested (()())": true,
		"nested (()":    false,
		"wide äöü":      true,
		"wide äöüß":     false,
		"wide \n":       false,
		"wide \xff":     false,
	} {
		rule, text, _ := strings.Cut(text, " ")
		if got := g.Match(rule, text); got != want {
			t.Errorf("%s of %q: got %v, want %v", rule, text, got, want)
		}
	}
	if g.Match("letters", "a") {
		t.Error("a rule that is not there matches")
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"a = b":                "there is no rule b",
		"a = \"x\"\na = \"y\"": "a stands twice",
		"a = (\"x\"":           "( is not closed",
		"a = / \"x\"":          "nothing stands before",
		"a = \"x\" )":          "is left",
		"a = !":                "no ABNF",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}
