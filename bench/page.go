package main

import (
	"github.com/docket-export/docket/bench/report"
)

const pageHead = `<!-- Written by "go run -C bench ." from its JSON: see the end of the page. -->
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
    go run -C bench . -only queue,ingest -large=false        # a part of it, without 5 GB of disk
    make bench-docs                                       # measure, and write this page
    go run -C bench . -from results.json -markdown ../docs/benchmarks.md
    make bench-compare BASE=HEAD~1                        # is it slower than it was?

The fourth line writes the page again without measuring. ` + "`go run -C bench . -h`" + ` lists the flags.
`

// WritePage writes docs/benchmarks.md.
func (o *outcome) WritePage(p *report.Page) {
	p.Printf("%s", pageHead)
	for _, line := range o.Machine.Lines() {
		p.Printf("- %s\n", line)
	}
	p.Printf("\n%s.\n\n%s\n", o.Conditions(), o.judgement())
	for _, e := range o.Experiments {
		p.Printf("\n## %s\n\n%s\n\n", e.Title, e.About)
		p.Printf("| what | median | range | target | |\n|---|---|---|---|---|\n")
		for _, row := range e.Rows {
			p.Row(row.cells()...)
		}
	}
	p.Printf("%s", pageTail)
}
