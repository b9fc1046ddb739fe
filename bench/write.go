package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/docket-export/docket/bench/report"
)

// WriteTable writes the results for a terminal.
func (o *outcome) WriteTable(w io.Writer) error {
	for _, line := range o.Machine.Lines() {
		fmt.Fprintln(w, line)
	}
	fmt.Fprintf(w, "%s.\n", o.Conditions())
	var sections []report.Section
	for _, e := range o.Experiments {
		s := report.Section{Title: e.Title}
		for _, row := range e.Rows {
			s.Rows = append(s.Rows, row.cells())
		}
		sections = append(sections, s)
	}
	if err := report.WriteSections(w, sections); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", o.judgement())
	return err
}

// judgement says which targets are not met.
func (o *outcome) judgement() string {
	targets, missed := 0, []string{}
	for _, e := range o.Experiments {
		for _, row := range e.Rows {
			if row.Target != nil {
				targets++
			}
			if row.missed() {
				missed = append(missed, fmt.Sprintf("%s (%s: %s, %s asked)", row.What, e.Name, row.cells()[1], row.Target))
			}
		}
	}
	s := fmt.Sprintf("%d of %d targets met.", targets-len(missed), targets)
	if len(missed) > 0 {
		s += " Not met:\n- " + strings.Join(missed, "\n- ")
	}
	return s
}
