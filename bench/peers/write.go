package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/docket-export/docket/bench/chart"
)

// number is how every figure is written.
func number(v float64) string { return chart.Number(v) }

// cell is what a table shows of the rounds: the median, and the range where there is
// one.
func cell(values []float64) string {
	s := summarize(values)
	if s.least == s.greatest {
		return number(s.median)
	}
	return fmt.Sprintf("%s (%s .. %s)", number(s.median), number(s.least), number(s.greatest))
}

// line says the figures of one measurement in one line.
func (f figures) line(columns []column) string {
	var parts []string
	for _, c := range columns {
		parts = append(parts, fmt.Sprintf("%s %s", c.Key, number(f[c.Key])))
	}
	return strings.Join(parts, ", ")
}

// conditions says what the figures are.
func (r *report) conditions() string {
	rounds := "1 round"
	if r.Rounds > 1 {
		rounds = fmt.Sprintf("%d rounds, with the least and the greatest", r.Rounds)
	}
	return fmt.Sprintf("Medians of %s; %s records of 1 KB in each measurement under load, or what is sent within %v.",
		rounds, number(float64(r.Records)), loadLimit)
}

// rows are the lines of the table of m, its head first.
func (r *report) rows(m measure) [][]string {
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
func (r *report) contenderRows() [][]string {
	rows := [][]string{{"", "version", "what the setting does"}}
	for _, e := range r.Contenders {
		rows = append(rows, []string{e.name(), e.Version, e.About})
	}
	return rows
}

func (e entry) name() string { return e.Peer + ", " + e.Setting }

// claimRows are the lines of the table of targets, its head first.
func (r *report) claimRows() [][]string {
	rows := [][]string{{"", "measured", "target", ""}}
	for _, c := range r.claims() {
		rows = append(rows, []string{c.what, cell(c.values), c.target(), c.verdict()})
	}
	return rows
}

// writeTable writes the results for a terminal.
func writeTable(w io.Writer, r *report) error {
	fmt.Fprintf(w, "%s\n%s\n", r.Machine, r.conditions())
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	section := func(title string, rows [][]string) {
		fmt.Fprintf(t, "\n%s\n", title)
		for _, row := range rows {
			fmt.Fprintf(t, "  %s\n", strings.Join(row, "\t"))
		}
	}
	for _, m := range r.Measures {
		section(m.Title, r.rows(m))
	}
	section("Targets", r.claimRows())
	return t.Flush()
}
