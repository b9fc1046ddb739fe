package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/docket-export/docket/bench/report"
)

// cell is what a table shows of the rounds: the median, and the range where there is
// one.
func cell(values []float64) string {
	s := report.Summarize(values)
	if s.Range() == "" {
		return report.Number(s.Median)
	}
	return fmt.Sprintf("%s (%s)", report.Number(s.Median), s.Range())
}

// line says the figures of one measurement in one line.
func (f figures) line(columns []column) string {
	var parts []string
	for _, c := range columns {
		parts = append(parts, fmt.Sprintf("%s %s", c.Key, report.Number(f[c.Key])))
	}
	return strings.Join(parts, ", ")
}

// conditions says what the figures are.
func (r *outcome) conditions() string {
	return fmt.Sprintf("%s, or what is sent within %v.", r.Conditions(), loadLimit)
}

// rows are the lines of the table of m, its head first.
func (r *outcome) rows(m measure) [][]string {
	head := []string{""}
	for _, c := range m.Columns {
		head = append(head, c.What)
	}
	rows := [][]string{head}
	for _, e := range r.Contenders {
		cells := []string{e.name()}
		for _, c := range m.Columns {
			cells = append(cells, cell(m.Results[e.Key][c.Key]))
		}
		rows = append(rows, cells)
	}
	return rows
}

// contenderRows say what was measured, their head first.
func (r *outcome) contenderRows() [][]string {
	rows := [][]string{{"", "version", "what the setting does"}}
	for _, e := range r.Contenders {
		rows = append(rows, []string{e.name(), e.Version, e.About})
	}
	return rows
}

func (e entry) name() string { return e.Peer + ", " + e.Setting }

// claimRows are the lines of the table of targets, its head first.
func (r *outcome) claimRows() [][]string {
	rows := [][]string{{"", "measured", "target", ""}}
	for _, c := range r.claims() {
		rows = append(rows, []string{c.what, cell(c.values), c.target.String(), c.target.Verdict(c.values)})
	}
	return rows
}

// WriteTable writes the results for a terminal.
func (r *outcome) WriteTable(w io.Writer) error {
	fmt.Fprintf(w, "%s\n%s\n", r.Machine, r.conditions())
	var sections []report.Section
	for _, m := range r.Measures {
		sections = append(sections, report.Section{Title: m.Title, Rows: r.rows(m)})
	}
	return report.WriteSections(w, append(sections, report.Section{Title: "Targets", Rows: r.claimRows()}))
}
