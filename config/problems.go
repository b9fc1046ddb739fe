package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Problem is one thing that is wrong with a configuration.
type Problem struct {
	Path string // where, as "sinks[1].http.url"; empty for the file as a whole
	Line int    // line in the file, from 1; 0 when the problem has no place in it
	Text string // what is wrong and what to do: "must be absolute"
}

func (p Problem) String() string {
	var b strings.Builder
	if p.Line > 0 {
		b.WriteString("line " + strconv.Itoa(p.Line) + ": ")
	}
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.Text)
	return b.String()
}

// Problems collects everything that is wrong, so that a person sees all of it
// at once. It is an error when it is not empty; see Err.
type Problems []Problem

// Addf adds a problem at path; format and args are as for fmt.Sprintf.
func (p *Problems) Addf(path, format string, args ...any) {
	*p = append(*p, Problem{Path: path, Text: fmt.Sprintf(format, args...)})
}

// Check adds the first of errs that is not nil as a problem at path. Made for the checks of
// single values: p.Check("whenFull", Choice(c.WhenFull, Block, DropOldest)).
func (p *Problems) Check(path string, errs ...error) {
	for _, err := range errs {
		if err != nil {
			p.Addf(path, "%v", err)
			return
		}
	}
}

// Refuse adds a problem at path if wrong is true; format and args are as for fmt.Sprintf.
func (p *Problems) Refuse(wrong bool, path, format string, args ...any) {
	if wrong {
		p.Addf(path, format, args...)
	}
}

// In returns the problems with their paths moved below path.
func (p Problems) In(path string) Problems {
	moved := make(Problems, len(p))
	for i, q := range p {
		q.Path = join(path, q.Path)
		moved[i] = q
	}
	return moved
}

// Warner is a part of a configuration that can be valid and still a mistake. Warnings has
// paths relative to the part, and says what to do; it does not touch disk or network.
type Warner interface{ Warnings() Problems }

// Err is p as an error, nil when there are none.
func (p Problems) Err() error {
	if len(p) == 0 {
		return nil
	}
	return p
}

// Error lists the problems, one a line.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, q := range p {
		lines[i] = q.String()
	}
	return strings.Join(lines, "\n")
}

// sort puts p in the order of lines, those without a line first.
func (p Problems) sort() {
	slices.SortStableFunc(p, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
}

// join puts a path below another; an index ("[2]") takes no dot.
func join(parent, child string) string {
	if parent == "" || child == "" || strings.HasPrefix(child, "[") {
		return parent + child
	}
	return parent + "." + child
}
