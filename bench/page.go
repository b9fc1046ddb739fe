package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/docket-export/docket/bench/chart"
)

const pageHead = `<!-- Written by "go run ./bench" from its JSON: see the end of the page. -->
# Benchmarks

What docket costs, beside the plain program that does only the unavoidable part: write
and fdatasync on the same disk, or send to the same destination. Absolute figures belong to the machine, and on a
shared one drift by a factor of two to four; the ratios are what to look at. They are
taken within a round, in which every program runs once. [peers.md](peers.md) has other programs at the same work, and
[performance.md](performance.md) how docket came to these figures, and what did not help.

`

const pageTail = `
## How to measure again

    make bench                                            # the table, on this machine
    go run ./bench -only queue,append -large=false        # a part of it, without 5 GB of disk
    make bench-docs                                       # measure, and write this page with its charts
    go run ./bench -from bench/results.json -markdown docs/benchmarks.md
    make bench-compare BASE=HEAD~1                        # is it slower than it was?

The fourth line writes the page again without measuring. ` + "`go run ./bench -h`" + ` lists the flags.
`

// page is docs/benchmarks.md and what belongs to it.
type page struct {
	text   []byte
	charts map[string][]byte // by file name, below a directory that is named as the page
}

// newPage makes the page of r. directory is where its links find the charts.
func newPage(r *report, directory string) (*page, error) {
	p := &page{charts: map[string][]byte{}}
	var b bytes.Buffer
	b.WriteString(pageHead)
	for _, line := range r.Machine.Lines() {
		fmt.Fprintf(&b, "- %s\n", line)
	}
	fmt.Fprintf(&b, "\n%s\n\n%s\n", r.conditions(), r.judgement())
	for _, c := range overviews(r) {
		b.WriteByte('\n')
		if err := p.add(&b, directory, c.file, c.Chart); err != nil {
			return nil, err
		}
	}
	for _, e := range r.Experiments {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", e.Title, e.About)
		for i, c := range e.charts() {
			if err := p.add(&b, directory, fmt.Sprintf("%s%s.svg", e.Name, [...]string{"", "-2", "-3"}[i]), c); err != nil {
				return nil, err
			}
			b.WriteByte('\n')
		}
		b.WriteString("| what | median | range | target | |\n|---|---|---|---|---|\n")
		for _, row := range e.Rows {
			c := row.cells()
			fmt.Fprintf(&b, "| %s |\n", strings.Join(c[:], " | "))
		}
	}
	b.WriteString(pageTail)
	p.text = b.Bytes()
	return p, nil
}

// add draws a chart, and shows it on the page.
func (p *page) add(b *bytes.Buffer, directory, file string, c *chart.Chart) error {
	var svg bytes.Buffer
	if err := c.Write(&svg); err != nil {
		return err
	}
	p.charts[file] = svg.Bytes()
	fmt.Fprintf(b, "![%s](%s/%s)\n", c.Title, directory, file)
	return nil
}

// writePage writes the page of r as name, and its charts to a directory beside it, from
// which charts that the page has no more are removed.
func writePage(name string, r *report) error {
	directory := chartsOf(name)
	p, err := newPage(r, filepath.Base(directory))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(directory, "*.svg"))
	if err != nil {
		return err
	}
	var errs []error
	for _, path := range old {
		if p.charts[filepath.Base(path)] == nil {
			errs = append(errs, os.Remove(path))
		}
	}
	for file, svg := range p.charts {
		errs = append(errs, writeFile(filepath.Join(directory, file), writes(svg)))
	}
	return errors.Join(append(errs, writeFile(name, writes(p.text)))...)
}

// chartsOf is where the charts of a page are.
func chartsOf(page string) string { return strings.TrimSuffix(page, filepath.Ext(page)) }

func writes(b []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	}
}
