// Package abnf matches texts with grammars of RFC 5234 that stand on a page. Quoted texts
// are as in RFC 7405: %s"text" is case-sensitive. Tests use it; it is made for short texts.
package abnf

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// core are the rules of appendix B.1 of RFC 5234 that grammars use.
const core = `
ALPHA = %x41-5A / %x61-7A
DIGIT = %x30-39
HEXDIG = DIGIT / "A" / "B" / "C" / "D" / "E" / "F"
DQUOTE = %x22
HTAB = %x09
SP = %x20
CR = %x0D
LF = %x0A
`

// Grammar is a set of rules.
type Grammar map[string]node

// node matches a text from a position on, and returns where it may end.
type node func(g Grammar, text string, at int) (ends []int)

var (
	begin  = regexp.MustCompile(`(?m)^([A-Za-z][A-Za-z0-9-]*)[ \t]*=`)
	remark = regexp.MustCompile(`(?m)^(([^";\n]|"[^"\n]*")*);.*$`)
	token  = regexp.MustCompile(`^(?:[ \t\r\n]+|(%s"[^"]*"|"[^"]*"|%x[0-9A-Fa-f]+(?:-[0-9A-Fa-f]+|(?:\.[0-9A-Fa-f]+)+)?|[0-9]*\*[0-9]*|[0-9]+|[A-Za-z][A-Za-z0-9-]*|[/()[\]]))`)
)

// Parse reads rules.
func Parse(text string) (Grammar, error) {
	g := make(Grammar)
	text = remark.ReplaceAllString(core+text, "$1")
	var used []string
	rules := begin.FindAllStringSubmatchIndex(text, -1)
	for i, m := range rules {
		end := len(text)
		if i+1 < len(rules) {
			end = rules[i+1][0]
		}
		name := strings.ToLower(text[m[2]:m[3]])
		if g[name] != nil {
			return nil, fmt.Errorf("%s stands twice", name)
		}
		p := parser{}
		for rest := text[m[1]:end]; rest != ""; {
			t := token.FindStringSubmatch(rest)
			if t == nil {
				return nil, fmt.Errorf("%s: no ABNF: %.40q", name, rest)
			}
			if rest = rest[len(t[0]):]; t[1] != "" {
				p.tokens = append(p.tokens, t[1])
			}
		}
		n, err := p.alternation()
		if err == nil && len(p.tokens) > 0 {
			err = fmt.Errorf("%q is left", p.tokens)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		g[name] = n
		used = append(used, p.names...)
	}
	for _, name := range used {
		if g[name] == nil {
			return nil, fmt.Errorf("there is no rule %s", name)
		}
	}
	return g, nil
}

// Match reports whether the whole text is of a rule.
func (g Grammar) Match(rule, text string) bool {
	n := g[strings.ToLower(rule)]
	return n != nil && slices.Contains(n(g, text, 0), len(text))
}

// parser reads the tokens of one rule.
type parser struct {
	tokens []string
	names  []string // the rules that it names
}

func (p *parser) peek() string {
	if len(p.tokens) == 0 {
		return ""
	}
	return p.tokens[0]
}

func (p *parser) pop() (token string) {
	token, p.tokens = p.tokens[0], p.tokens[1:]
	return token
}

func (p *parser) alternation() (node, error) {
	var choices []node
	for {
		n, err := p.concatenation()
		if err != nil {
			return nil, err
		}
		if choices = append(choices, n); p.peek() != "/" {
			return oneOf(choices), nil
		}
		p.pop()
	}
}

func (p *parser) concatenation() (node, error) {
	var parts []node
	for t := p.peek(); t != "" && t != "/" && t != ")" && t != "]"; t = p.peek() {
		n, err := p.repetition()
		if err != nil {
			return nil, err
		}
		parts = append(parts, n)
	}
	if len(parts) == 0 {
		return nil, fmt.Errorf("nothing stands before %q", p.peek())
	}
	return inTurn(parts), nil
}

func (p *parser) repetition() (node, error) {
	least, most := 1, 1
	if t := p.peek(); t[0] == '*' || '0' <= t[0] && t[0] <= '9' {
		from, to, ranged := strings.Cut(p.pop(), "*")
		least, _ = strconv.Atoi(from) // "" is 0
		if most = least; ranged {
			if most, _ = strconv.Atoi(to); to == "" {
				most = math.MaxInt
			}
		}
	}
	n, err := p.element()
	if least == 1 && most == 1 || err != nil {
		return n, err
	}
	return repeated(n, least, most), nil
}

func (p *parser) element() (node, error) {
	switch t := p.pop(); {
	case t == "(" || t == "[":
		n, err := p.alternation()
		if err != nil {
			return nil, err
		}
		if closing := p.peek(); closing != map[string]string{"(": ")", "[": "]"}[t] {
			return nil, fmt.Errorf("%s is not closed", t)
		}
		if p.pop() == "]" {
			n = repeated(n, 0, 1)
		}
		return n, nil
	case t[0] == '"':
		return letters(t[1:len(t)-1], strings.EqualFold), nil
	case strings.HasPrefix(t, `%s"`):
		return letters(t[3:len(t)-1], func(a, b string) bool { return a == b }), nil
	case strings.HasPrefix(t, "%x"):
		return codes(t[2:])
	case t == ")" || t == "]" || t == "/" || strings.Contains(t, "*"):
		return nil, fmt.Errorf("%s stands where an element must", t)
	default:
		p.names = append(p.names, strings.ToLower(t))
		return named(t), nil
	}
}

func named(name string) node {
	name = strings.ToLower(name)
	return func(g Grammar, text string, at int) []int { return g[name](g, text, at) }
}

func oneOf(choices []node) node {
	return func(g Grammar, text string, at int) (ends []int) {
		for _, n := range choices {
			ends = union(ends, n(g, text, at))
		}
		return ends
	}
}

func inTurn(parts []node) node {
	return func(g Grammar, text string, at int) []int {
		from := []int{at}
		for _, n := range parts {
			from = next(g, n, text, from)
		}
		return from
	}
}

func repeated(n node, least, most int) node {
	return func(g Grammar, text string, at int) (ends []int) {
		from := []int{at}
		for i := 0; len(from) > 0; i++ {
			if i >= least {
				// What was reached before leads nowhere new.
				from = slices.DeleteFunc(from, func(end int) bool { return slices.Contains(ends, end) })
				ends = union(ends, from)
			}
			if i == most {
				break
			}
			from = next(g, n, text, from)
		}
		return ends
	}
}

func letters(want string, same func(a, b string) bool) node {
	return func(_ Grammar, text string, at int) []int {
		if end := at + len(want); end <= len(text) && same(text[at:end], want) {
			return []int{end}
		}
		return nil
	}
}

// codes is for 41, 41-5A and 0D.0A.
func codes(t string) (node, error) {
	first, last, ranged := strings.Cut(t, "-")
	if !ranged {
		want := ""
		for code := range strings.SplitSeq(t, ".") {
			r, err := strconv.ParseUint(code, 16, 21)
			if err != nil {
				return nil, err
			}
			want += string(rune(r))
		}
		return letters(want, func(a, b string) bool { return a == b }), nil
	}
	low, err := strconv.ParseUint(first, 16, 21)
	if err != nil {
		return nil, err
	}
	high, err := strconv.ParseUint(last, 16, 21)
	return func(_ Grammar, text string, at int) []int {
		r, size := utf8.DecodeRuneInString(text[at:])
		if size == 0 || r == utf8.RuneError && size == 1 || uint64(r) < low || uint64(r) > high {
			return nil
		}
		return []int{at + size}
	}, err
}

func next(g Grammar, n node, text string, from []int) (ends []int) {
	for _, at := range from {
		ends = union(ends, n(g, text, at))
	}
	return ends
}

func union(a, b []int) []int {
	for _, n := range b {
		if !slices.Contains(a, n) {
			a = append(a, n)
		}
	}
	return a
}
