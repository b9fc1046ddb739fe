package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
)

// writeTable writes the results for a terminal.
func writeTable(w io.Writer, r *report) error {
	for _, line := range r.Machine.lines() {
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
	return t.Flush()
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
func number(v float64) string {
	if math.Abs(v) < 100 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	digits := strconv.FormatFloat(math.Round(v), 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + " " + digits[i:]
	}
	return digits
}

const pageHead = `<!-- Written by "go run ./bench" from its JSON: see the end of the page. -->
# Benchmarks

What docket costs, beside the plain program that does only the unavoidable part: write
and fdatasync on the same disk, or send to the same destination. Absolute figures belong to the machine, and on a
shared one drift by a factor of two to four; the ratios are what to look at. They are
taken within a round, in which every program runs once.

`

const pageTail = `
## How to measure again

    make bench                                            # the table, on this machine
    go run ./bench -only queue,append -large=false        # a part of it, without 5 GB of disk
    go run ./bench -json bench/results.json -markdown docs/benchmarks.md
    go run ./bench -from bench/results.json -markdown docs/benchmarks.md

The third line measures and writes this page; the fourth writes it again without
measuring. ` + "`go run ./bench -h`" + ` lists the flags.
`

// writePage writes the results as docs/benchmarks.md.
func writePage(w io.Writer, r *report) error {
	var b strings.Builder
	b.WriteString(pageHead)
	for _, line := range r.Machine.lines() {
		fmt.Fprintf(&b, "- %s\n", line)
	}
	fmt.Fprintf(&b, "\n%s\n", r.conditions())
	for _, e := range r.Experiments {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", e.Title, e.About)
		b.WriteString("| what | median | range | target | |\n|---|---|---|---|---|\n")
		for _, row := range e.Rows {
			c := row.cells()
			fmt.Fprintf(&b, "| %s |\n", strings.Join(c[:], " | "))
		}
	}
	b.WriteString(pageTail)
	_, err := io.WriteString(w, b.String())
	return err
}
