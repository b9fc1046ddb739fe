package main

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func pageOf(t *testing.T, r *report) *page {
	t.Helper()
	p, err := newPage(r, "charts")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const wantPage = `
- Model, 2 cores, Linux 6.1
- file system ext4, go1.26

Medians of 2 rounds, with the least and the greatest; 200 000 records of 1 KB in each measurement under load.

0 of 1 targets met. Not met:
- docket / raw (name: 0.275, >= 0.5 asked)

![Targets](charts/targets.svg)

## Title

How.

![Title](charts/name.svg)

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
	p := pageOf(t, r)
	if !strings.Contains(string(p.text), wantPage) {
		t.Errorf("got:\n%s\nwant in it:\n%s", p.text, wantPage)
	}
	if got := slices.Sorted(maps.Keys(p.charts)); !slices.Equal(got, []string{"name.svg", "targets.svg"}) {
		t.Errorf("charts: got %q", got)
	}
	for file, wants := range map[string][]string{
		"name.svg":    {"docket 250 000 records/s, 200 000 .. 300 000; raw 900 000 records/s", `class="own"`, `class="beside"`},
		"targets.svg": {"docket / raw 0.275, asked &gt;= 0.5", `class="failing"`},
	} {
		for _, want := range wants {
			if !strings.Contains(string(p.charts[file]), want) {
				t.Errorf("%s: want %q in it, got:\n%s", file, want, p.charts[file])
			}
		}
	}
}

// A chart that is shown no more does not stay beside the page.
func TestWritePageRemovesOldCharts(t *testing.T) {
	name := filepath.Join(t.TempDir(), "page.md")
	if err := os.MkdirAll(chartsOf(name), 0o755); err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(chartsOf(name), "old.svg")
	if err := os.WriteFile(old, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writePage(name, measured(t)); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(chartsOf(name), "*"))
	if err != nil || len(files) != 1 || filepath.Base(files[0]) != "targets.svg" {
		t.Errorf("got %q (%v), want targets.svg alone", files, err)
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
	r, err := readReport("results.json")
	if err != nil {
		t.Fatal(err)
	}
	const name, mend = "../docs/benchmarks.md", "run `go run ./bench -from bench/results.json -markdown docs/benchmarks.md`"
	directory := chartsOf(name)
	want, err := newPage(r, filepath.Base(directory))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want.text) {
		t.Errorf("docs/benchmarks.md is not the page of bench/results.json (%v): %s", err, mend)
	}
	files, err := filepath.Glob(filepath.Join(directory, "*"))
	if err != nil || len(files) != len(want.charts) {
		t.Errorf("%s has %d files (%v), want %d: %s", directory, len(files), err, len(want.charts), mend)
	}
	for file, svg := range want.charts {
		if got, err := os.ReadFile(filepath.Join(directory, file)); err != nil || !bytes.Equal(got, svg) {
			t.Errorf("%s is not that of the results (%v): %s", file, err, mend)
		}
	}
}
