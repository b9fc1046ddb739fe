package main

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/bench/report/reporttest"
)

const wantPage = `
- Model, 2 cores, Linux 6.1
- file system ext4, go1.26

Medians of 2 rounds, with the least and the greatest; 200 000 records of 1 KB in each measurement under load.

0 of 1 targets met. Not met:
- docket / raw (name: 0.275, >= 0.5 asked)

![Targets](page/targets.svg)

## Title

How.

![Title](page/name.svg)

| what | median | range | target | |
|---|---|---|---|---|
| docket | 250 000 records/s | 200 000 .. 300 000 |  |  |
| raw | 900 000 | 800 000 .. 1 000 000 |  |  |
| docket / raw | 0.275 | 0.25 .. 0.3 | >= 0.5 | NOT met |

## How to measure again
`

func TestPage(t *testing.T) {
	r := measured(t)
	r.Experiments[0].Name = "name"
	r.Experiments[0].Charts = []drawn{{Keys: []string{"a", "b"}, Own: []string{"a"}}}
	page := reporttest.Page(t, r, "page.md")
	if !strings.Contains(page["page.md"], wantPage) {
		t.Errorf("got:\n%s\nwant in it:\n%s", page["page.md"], wantPage)
	}
	if got := slices.Sorted(maps.Keys(page)); !slices.Equal(got, []string{"page.md", "page/name.svg", "page/targets.svg"}) {
		t.Errorf("files: got %q", got)
	}
	for file, wants := range map[string][]string{
		"page/name.svg":    {"docket 250 000 records/s, 200 000 .. 300 000; raw 900 000 records/s", `class="own"`, `class="beside"`},
		"page/targets.svg": {"docket / raw 0.275, asked &gt;= 0.5", `class="failing"`},
	} {
		for _, want := range wants {
			if !strings.Contains(page[file], want) {
				t.Errorf("%s: want %q in it, got:\n%s", file, want, page[file])
			}
		}
	}
}

// Every row that a chart names is there, and all of a chart have one unit.
func TestChartsAreOfRows(t *testing.T) {
	for _, e := range experiments() {
		for _, d := range e.Charts {
			for _, key := range d.Keys {
				if r := e.row(key); r == nil || r.Unit != e.row(d.Keys[0]).Unit {
					t.Errorf("%s: row %q: got %+v, want one of the unit of %q", e.Name, key, r, d.Keys[0])
				}
			}
			for _, key := range d.Own {
				if !slices.Contains(d.Keys, key) {
					t.Errorf("%s: %q is docket's and not in the chart", e.Name, key)
				}
			}
		}
	}
}

// The page in the repository, and its charts, are those of the results beside it.
func TestPageIsThatOfTheResults(t *testing.T) {
	o, err := readOutcome("results.json")
	if err != nil {
		t.Fatal(err)
	}
	reporttest.IsPage(t, "../docs/benchmarks.md", o, "go run -C bench . -from results.json -markdown ../docs/benchmarks.md")
}
