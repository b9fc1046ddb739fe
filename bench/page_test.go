package main

import (
	"strings"
	"testing"

	"github.com/docket-export/docket/bench/report/reporttest"
)

const wantPage = `
- Model, 2 cores, Linux 6.1
- file system ext4, go1.26

Medians of 2 rounds, with the least and the greatest; 200 000 records of 1 KB in each measurement under load.

0 of 1 targets met. Not met:
- docket / raw (e: 0.275, >= 0.5 asked)

## Title

How.

| what | median | range | target |  |
|---|---|---|---|---|
| docket | 250 000 records/s | 200 000 .. 300 000 |  |  |
| raw | 900 000 | 800 000 .. 1 000 000 |  |  |
| docket / raw | 0.275 | 0.25 .. 0.3 | >= 0.5 | NOT met |

## How to measure again
`

func TestPage(t *testing.T) {
	if page := reporttest.Page(t, measured(t)); !strings.Contains(page, wantPage) {
		t.Errorf("got:\n%s\nwant in it:\n%s", page, wantPage)
	}
}

// The page in the repository is that of the results beside it.
func TestPageIsThatOfTheResults(t *testing.T) {
	o, err := readOutcome("results.json")
	if err != nil {
		t.Fatal(err)
	}
	reporttest.IsPage(t, "../docs/targets.md", o, "go run -C bench . -from results.json -markdown ../docs/targets.md")
}
