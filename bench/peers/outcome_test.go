package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/bench/report"
	"github.com/docket-export/docket/bench/report/reporttest"
)

// Contenders that claims are about, beside docket's own.
const (
	unsynced  = "syslog-ng/strict"
	syncsEach = "rsyslog/strict"
)

// measured is a report of two rounds in which the machine is twice as fast in the
// second.
func measured(t *testing.T) *outcome {
	t.Helper()
	r := &outcome{Head: report.Head{Rounds: 2, Records: 200_000}, Measures: work().Measures}
	for _, key := range []string{own, syncsEach, "syslog-ng/default", unsynced} {
		name, setting, _ := strings.Cut(key, "/")
		r.Contenders = append(r.Contenders, entry{Key: key, Peer: name, Setting: setting, About: "About " + key, Version: "1.0"})
	}
	rates := map[string]float64{own: 300_000, syncsEach: 3000, "syslog-ng/default": 500_000, unsynced: 100_000}
	for round := 1; round <= 2; round++ {
		for i := range r.Measures {
			m := &r.Measures[i]
			for key, rate := range rates {
				f := figures{}
				for _, c := range m.Columns {
					f[c.Key] = float64(round)
				}
				if _, ok := f["rate"]; ok {
					f["rate"] = rate * float64(round)
				}
				if key == "syslog-ng/default" && m.Name == "start" {
					continue // its queue is in memory
				}
				if delete(f, "lost"); slices.ContainsFunc(m.Columns, func(c column) bool { return c.Key == "lost" }) {
					f["lost"] = 0
				}
				if err := m.add(key, f); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return r
}

func TestAddNoticesWhatDoesNotFit(t *testing.T) {
	tests := map[string]figures{
		"one is missing":        {"sent": 1, "lost": 1},
		"one too many":          {"sent": 1, "lost": 1, "again": 1, "rate": 1},
		"one of another column": {"sent": 1, "lost": 1, "rate": 1},
	}
	for name, f := range tests {
		t.Run(name, func(t *testing.T) {
			m := work().Measures[1]
			if err := m.add(own, f); err == nil {
				t.Error("got no error")
			}
		})
	}
}

func TestClaims(t *testing.T) {
	r := measured(t)
	want := map[string]string{
		"intake: docket / syslog-ng/strict":                                "3 met",
		"intake: docket / rsyslog/strict":                                  "100 met",
		"to http: docket / the fastest of the others with a queue on disk": "3 met",
		"to file: docket / the fastest of the others with a queue on disk": "3 met",
		"processor time, intake: docket / syslog-ng/strict":                "1 met",
		"processor time, http: docket / syslog-ng/strict":                  "1 met",
		"processor time, file: docket / syslog-ng/strict":                  "1 met",
		"lost by SIGKILL: docket":                                          "0 met",
	}
	got := r.Claims()
	for _, c := range got {
		if have := report.Number(report.Summarize(c.values).Median) + " " + c.Target.Verdict(c.values); have != want[c.What] {
			t.Errorf("%s: got %s, want %s", c.What, have, want[c.What])
		}
	}
	if len(got) != len(want) {
		t.Errorf("got %d claims, want %d", len(got), len(want))
	}
}

func TestClaimRowsSayWhatIsMissed(t *testing.T) {
	r := measured(t)
	for _, m := range r.Measures {
		if m.Name == "intake" {
			m.Results[own]["rate"] = []float64{200_000, 400_000}
		}
	}
	want := []string{"intake: docket / syslog-ng/strict", "2", ">= 3", "NOT met"}
	if got := r.Claims()[0].Cells(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Who has lost a record in one round only, or on one way only, is no peer to beat
// there.
func TestFastestSafe(t *testing.T) {
	r := measured(t)
	if got, want := r.fastestSafe("http"), []float64{100_000, 200_000}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for i := range r.Measures {
		if r.Measures[i].Name == "http" {
			r.Measures[i].Results[unsynced]["lost"][1] = 1
		}
	}
	if got, want := r.fastestSafe("http"), []float64{3000, 6000}; !slices.Equal(got, want) {
		t.Errorf("after a loss to HTTP: got %v, want %v", got, want)
	}
	if got, want := r.fastestSafe("file"), []float64{100_000, 200_000}; !slices.Equal(got, want) {
		t.Errorf("after a loss to HTTP, of the file: got %v, want %v", got, want)
	}
}

// A run of docket and one other has no claims about the third.
func TestClaimsOfAPart(t *testing.T) {
	r := measured(t)
	r.Contenders = r.Contenders[:2]
	for i := range r.Measures {
		delete(r.Measures[i].Results, unsynced)
		delete(r.Measures[i].Results, "syslog-ng/default")
	}
	for _, c := range r.Claims() {
		if strings.Contains(c.What, "syslog-ng") {
			t.Errorf("got %q", c.What)
		}
	}
	var b bytes.Buffer
	if err := report.WriteTable(&b, r); err != nil || strings.Contains(b.String(), "syslog-ng/") {
		t.Errorf("got %v\n%s", err, b.String())
	}
}

func TestOutcomeSurvivesItsFile(t *testing.T) {
	r := measured(t)
	name := filepath.Join(t.TempDir(), "results.json")
	if err := report.WriteJSON(name, r); err != nil {
		t.Fatal(err)
	}
	back, err := readOutcome(name)
	if err != nil {
		t.Fatal(err)
	}
	want, got := reporttest.Page(t, r), reporttest.Page(t, back)
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, text := range []string{"| docket, default | 450 000 (300 000 .. 600 000) |", "About rsyslog/strict", ">= 3 | met |"} {
		if !strings.Contains(got, text) {
			t.Errorf("no %q in the page", text)
		}
	}
}

func TestReadOutcomeRefusesAPart(t *testing.T) {
	r := measured(t)
	r.Rounds = 3
	name := filepath.Join(t.TempDir(), "results.json")
	if err := report.WriteJSON(name, r); err != nil {
		t.Fatal(err)
	}
	if _, err := readOutcome(name); err == nil || !strings.Contains(err.Error(), "2 values") {
		t.Errorf("got error %v, want one about 2 values", err)
	}
}

// The page, the chart and the table of README.md are of the results in the repository.
func TestPageIsThatOfTheResults(t *testing.T) {
	r, err := readOutcome("results.json")
	if err != nil {
		t.Fatal(err)
	}
	const command = "go run -C bench ./peers -from peers/results.json -markdown ../docs/benchmarks.md -chart ../docs/images/peers.svg"
	reporttest.IsPage(t, "../../docs/benchmarks.md", r, command)
	drawn, err := os.ReadFile("../../docs/images/peers.svg")
	if err != nil {
		t.Fatal(err)
	}
	if string(drawn) != r.chart() {
		t.Errorf("the chart is not of the results: run `%s`", command)
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(reporttest.Page(t, r), "\n\n|")
	table, _, _ = strings.Cut(table, "\n\n")
	if !strings.Contains(string(readme), "\n\n|"+table+"\n\n") {
		t.Error("README.md has another table than docs/benchmarks.md: copy the first one")
	}
}

// The chart has a bar for every program and headline, the longest for the greatest figure, and docket last.
func TestChart(t *testing.T) {
	r := measured(t)
	svg := r.chart()
	if err := xml.Unmarshal([]byte(svg), new(struct{})); err != nil {
		t.Fatal(err)
	}
	bars := len(work().Headlines) * 3 // docket, rsyslog and syslog-ng: the others were not measured
	if got := strings.Count(svg, "<rect class=\"bar\"") + strings.Count(svg, "<rect class=\"own\""); got != bars {
		t.Errorf("got %d bars, want %d", got, bars)
	}
	peer, docket := strings.Index(svg, ">4 500<"), strings.Index(svg, ">450 000<")
	if peer < 0 || docket < peer {
		t.Errorf("got rsyslog's rate at %d and docket's at %d, want docket's last", peer, docket)
	}
	if want := fmt.Sprintf(`width="%.1f"`, float64(panelWidth-labelWidth-valueWidth-8)); strings.Count(svg, want) == 0 {
		t.Errorf("no bar has %s", want)
	}
}

func TestHeadlines(t *testing.T) {
	want := [][]string{{"", "rsyslog", "syslog-ng", "docket"}, {"Durable intake, records/s", "4 500", "150 000", "450 000"}}
	if got := measured(t).Headlines(); len(got) != len(work().Headlines)+1 || !slices.Equal(got[0], want[0]) || !slices.Equal(got[1], want[1]) {
		t.Errorf("got %q, want %q at first", got, want)
	}
}

func TestChosenMeasures(t *testing.T) {
	got, err := chosenMeasures("start,kill")
	if err != nil || len(got) != 2 || got[0].Name != "kill" || got[1].Name != "start" {
		t.Errorf("got %v, %v; want kill and start", got, err)
	}
	if _, err := chosenMeasures("kill,speed"); err == nil || !strings.Contains(err.Error(), `no "speed"`) {
		t.Errorf("got error %v, want one about speed", err)
	}
}

// Who skips a measure has no line there.
func TestRowsOfAPart(t *testing.T) {
	r := measured(t)
	delete(r.Measures[0].Results, syncsEach)
	for _, row := range r.Rows(r.Measures[0]) {
		if row[0] == "rsyslog, strict" {
			t.Errorf("got %q", row)
		}
	}
}
