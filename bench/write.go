package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/docket-export/docket/bench/chart"
)

// writeTable writes the results for a terminal.
func writeTable(w io.Writer, r *report) error {
	for _, line := range r.Machine.Lines() {
		fmt.Fprintln(w, line)
	}
	fmt.Fprintf(w, "%s\n", r.conditions())
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, e := range r.Experiments {
		fmt.Fprintf(t, "\n%s\n", e.Title)
		for _, row := range e.Rows {
			c := row.cells()
			fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\n", c[0], c[1], c[2], c[3], c[4])
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", r.judgement())
	return err
}

// judgement says which targets are not met.
func (r *report) judgement() string {
	targets, missed := 0, []string{}
	for _, e := range r.Experiments {
		for _, row := range e.Rows {
			if row.Target == nil {
				continue
			}
			if targets++; row.verdict() != met {
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

// conditions says what the figures are.
func (r *report) conditions() string {
	rounds := "1 round"
	if r.Rounds > 1 {
		rounds = strconv.Itoa(r.Rounds) + " rounds"
	}
	return fmt.Sprintf("Medians of %s, with the least and the greatest; %s records of 1 KB in each measurement under load.",
		rounds, number(float64(r.Records)))
}

// cells are what is shown of a row: what, median, range, target, verdict.
func (r row) cells() [5]string {
	s := summarize(r.Values)
	c := [5]string{r.What, strings.TrimSpace(number(s.median) + " " + r.Unit)}
	if len(r.Values) > 1 && s.least < s.greatest {
		c[2] = number(s.least) + " .. " + number(s.greatest)
	}
	if r.Target != nil {
		c[3] = r.Target.String()
	}
	c[4] = r.verdict()
	return c
}

// number writes v with three significant digits, and whole thousands apart.
func number(v float64) string { return chart.Number(v) }
