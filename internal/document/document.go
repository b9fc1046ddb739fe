// Package document reads the pages of docs/ for tests that do what a page says.
package document

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/internal/repo"
)

// Page is the text of a page, or of a section of it.
type Page struct {
	name string // for people: "docs/admission.md, Gatekeeper"
	Text string
}

// Read returns the page docs/NAME.
func Read(t testing.TB, name string) Page {
	t.Helper()
	root, err := repo.Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return Page{"docs/" + name, string(text)}
}

// Section returns what stands below a heading, up to the next of its level or above.
func (p Page) Section(t testing.TB, heading string) Page {
	t.Helper()
	m := regexp.MustCompile(`(?m)^(#+) ` + regexp.QuoteMeta(heading) + `\n`).FindStringSubmatchIndex(p.Text)
	if m == nil {
		t.Fatalf("%s has no section %q", p.name, heading)
	}
	text, level := p.Text[m[1]:], m[3]-m[2]
	end := len(text)
	for _, next := range headings.FindAllStringSubmatchIndex(text, -1) {
		if next[3]-next[2] <= level && !inBlock(text[:next[0]]) {
			end = next[0]
			break
		}
	}
	return Page{p.name + ", " + heading, text[:end]}
}

var (
	headings = regexp.MustCompile(`(?m)^(#+) `)
	sections = regexp.MustCompile(`(?m)^## (.+)\n`)
	fences   = regexp.MustCompile("(?m)^```")
	cells    = regexp.MustCompile(`(?:[^|\\]|\\.)+`)
	code     = regexp.MustCompile("`([^`]+)`")
	blocks   = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")
)

// Sections returns the headings of the second level.
func (p Page) Sections() (found []string) {
	for _, m := range sections.FindAllStringSubmatchIndex(p.Text, -1) {
		if !inBlock(p.Text[:m[0]]) {
			found = append(found, p.Text[m[2]:m[3]])
		}
	}
	return found
}

// inBlock reports whether text ends within a block: there # begins a comment.
func inBlock(text string) bool { return len(fences.FindAllStringIndex(text, -1))%2 == 1 }

// Blocks returns the blocks of a language. There must be one at least.
func (p Page) Blocks(t testing.TB, language string) (texts []string) {
	t.Helper()
	for _, m := range blocks.FindAllStringSubmatch(p.Text, -1) {
		if m[1] == language {
			texts = append(texts, m[2])
		}
	}
	if len(texts) == 0 {
		t.Fatalf("%s has no block of %s", p.name, language)
	}
	return texts
}

// Step is a block of shell commands, and the block of text after it, which they print.
type Step struct {
	Commands string
	Output   string // "": none that the page shows
}

// Steps returns the blocks of sh.
func (p Page) Steps() (steps []Step) {
	for _, m := range blocks.FindAllStringSubmatch(p.Text, -1) {
		switch {
		case m[1] == "sh":
			steps = append(steps, Step{Commands: m[2]})
		case m[1] == "text" && len(steps) > 0 && steps[len(steps)-1].Output == "":
			steps[len(steps)-1].Output = m[2]
		}
	}
	return steps
}

// Rows returns the cells of the rows of the page's tables, their heads left out.
func (p Page) Rows() (rows [][]string) {
	head := true
	for line := range strings.Lines(p.Text) {
		switch line = strings.TrimSpace(line); {
		case !strings.HasPrefix(line, "|"):
			head = true
		case strings.HasPrefix(line, "|---"):
			head = false
		case !head:
			row := cells.FindAllString(strings.Trim(line, "|"), -1)
			for i := range row {
				row[i] = strings.TrimSpace(row[i])
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// Quoted returns what stands in backticks in a cell.
func Quoted(cell string) (texts []string) {
	for _, m := range code.FindAllStringSubmatch(cell, -1) {
		texts = append(texts, strings.ReplaceAll(m[1], `\|`, "|"))
	}
	return texts
}

// Says reports whether text has want in it, wherever lines are broken. In want N is any
// number and … what has no space in it.
func Says(text, want string) bool {
	pattern := regexp.QuoteMeta(strings.Join(strings.Fields(want), " "))
	pattern = strings.ReplaceAll(regexp.MustCompile(`\bN\b`).ReplaceAllString(pattern, `[0-9]+`), "…", `\S+`)
	return regexp.MustCompile(pattern).MatchString(strings.Join(strings.Fields(text), " "))
}

// Shows returns nil when said contains the lines of a page, in their order. A line of a page
// is as in [Says].
func Shows(said, page string) error {
	lines := strings.Split(said, "\n")
	for line := range strings.Lines(page) {
		i := slices.IndexFunc(lines, func(l string) bool { return Says(l, line) })
		if i < 0 {
			return fmt.Errorf("the page shows the line %q", line)
		}
		lines = lines[i+1:]
	}
	return nil
}
