package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/bench/load"
	"github.com/docket-export/docket/bench/record"
	"github.com/docket-export/docket/bench/report"
	"github.com/docket-export/docket/bench/report/reporttest"
	"github.com/docket-export/docket/bench/site"
)

func twoRows() experiment {
	return experiment{Name: "e", Title: "Title", About: "How.", Rows: []row{
		{Key: "a", What: "docket", Unit: "records/s"},
		{Key: "b", What: "raw"},
		{Key: "r", What: "docket / raw", Ratio: &ratio{"a", "b"}, Target: &report.Target{AtLeast: 0.5}},
	}}
}

// The machine gets ten times slower from round to round, docket with it. The
// ratio of the medians would be 0.1.
func TestRatioIsTakenWithinTheRound(t *testing.T) {
	e := twoRows()
	for _, round := range []values{{"a": 90, "b": 100}, {"a": 1, "b": 10}, {"a": 0.8, "b": 1}} {
		if err := e.add(round); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := e.Rows[2].Values, []float64{0.9, 0.1, 0.8}; !slices.Equal(got, want) {
		t.Errorf("ratios: got %v, want %v", got, want)
	}
	if got := report.Summarize(e.Rows[2].Values).Median; got != 0.8 {
		t.Errorf("median: got %v, want 0.8", got)
	}
}

func TestAddNoticesWhatIsMissing(t *testing.T) {
	e := twoRows()
	if err := e.add(values{"a": 1}); err == nil {
		t.Error("a row without a value: got no error")
	}
	e = twoRows()
	if err := e.add(values{"a": 1, "b": 1, "c": 1}); err == nil {
		t.Error("a value without a row: got no error")
	}
}

func TestVerdict(t *testing.T) {
	tests := map[string]struct {
		target *report.Target
		values []float64
		want   string
		missed bool
	}{
		"no target":   {nil, []float64{1}, "", false},
		"reached":     {&report.Target{AtLeast: 0.3}, []float64{0.3, 0.3, 0.1}, "met", false},
		"not reached": {&report.Target{AtLeast: 0.3}, []float64{0.29, 0.29, 0.9}, "NOT met", true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := row{Target: tt.target, Values: tt.values}
			if got := r.Cells()[4]; got != tt.want || r.missed() != tt.missed {
				t.Errorf("got %q, missed %v; want %q, %v", got, r.missed(), tt.want, tt.missed)
			}
		})
	}
}

func TestQuantiles(t *testing.T) {
	var waits []time.Duration
	for i := range 101 {
		waits = append(waits, time.Duration(100-i)*time.Microsecond)
	}
	if p50, p99 := quantiles(waits); p50 != 50 || p99 != 99 {
		t.Errorf("got %v and %v, want 50 and 99", p50, p99)
	}
}

// measured is a report with two rounds of twoRows.
func measured(t *testing.T) *outcome {
	t.Helper()
	e := twoRows()
	for _, round := range []values{{"a": 300_000, "b": 1_000_000}, {"a": 200_000, "b": 800_000}} {
		if err := e.add(round); err != nil {
			t.Fatal(err)
		}
	}
	m := site.Machine{CPU: "Model", Cores: 2, Kernel: "6.1", FileSystem: "ext4", Go: "go1.26"}
	return &outcome{Head: report.Head{Machine: m, Rounds: 2, Records: 200_000}, Experiments: []experiment{e}}
}

func TestTableHasEveryRow(t *testing.T) {
	var table strings.Builder
	if err := report.WriteTable(&table, measured(t)); err != nil {
		t.Fatal(err)
	}
	if want := "  docket / raw  0.275              0.25 .. 0.3           >= 0.5  NOT met\n"; !strings.Contains(table.String(), want) {
		t.Errorf("got:\n%s\nwant in it:\n%s", table.String(), want)
	}
}

// What is read back is what was measured, with the words and targets of the table.
func TestOutcomeSurvivesItsFile(t *testing.T) {
	e := experiments()[0]
	for i := range e.Rows {
		e.Rows[i].Values = []float64{1, 2.5}
	}
	r := measured(t)
	r.Experiments = []experiment{e, twoRows()}
	name := filepath.Join(t.TempDir(), "results.json")
	if err := report.WriteJSON(name, r); err != nil {
		t.Fatal(err)
	}
	again, err := readOutcome(name)
	if err != nil {
		t.Fatal(err)
	}
	r.Experiments = r.Experiments[:1] // the other is not in the table
	if before, after := reporttest.Page(t, r), reporttest.Page(t, again); before != after {
		t.Errorf("page from the file:\n%s\nwant:\n%s", after, before)
	}
}

func TestReadOutcomeRefusesRowsWithoutValues(t *testing.T) {
	name := filepath.Join(t.TempDir(), "results.json")
	r := &outcome{Experiments: experiments()[:1]}
	if err := report.WriteJSON(name, r); err != nil {
		t.Fatal(err)
	}
	if _, err := readOutcome(name); err == nil {
		t.Error("got no error")
	}
}

func TestExperimentsAreConsistent(t *testing.T) {
	all := experiments()
	for name := range runs {
		if !slices.Contains(names(all), name) {
			t.Errorf("%s runs and is not in the table", name)
		}
	}
	for _, e := range all {
		if runs[e.Name] == nil || e.Title == "" || e.About == "" || len(e.Rows) == 0 {
			t.Errorf("%s: got %+v, want what runs and what it shows", e.Name, e)
		}
		keys := map[string]bool{}
		for _, r := range e.Rows {
			if keys[r.Key] {
				t.Errorf("%s: two rows are called %s", e.Name, r.Key)
			}
			keys[r.Key] = r.Ratio == nil
		}
		for _, r := range e.Rows {
			if r.Ratio != nil && (!keys[r.Ratio.Of] || !keys[r.Ratio.To]) {
				t.Errorf("%s: %s is the ratio of rows that are not measured: %+v", e.Name, r.Key, *r.Ratio)
			}
		}
	}
}

func TestChoose(t *testing.T) {
	got, err := choose(experiments(), options{only: "idle,ingest,idle"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := names(got), []string{"ingest", "idle"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if _, err := choose(experiments(), options{only: "ingest,nothing"}); err == nil || !strings.Contains(err.Error(), `"nothing"`) {
		t.Errorf("an experiment there is not: got error %v", err)
	}
	if got, err = choose(experiments(), options{only: "queue,open"}); err != nil || !slices.Equal(names(got), []string{"queue"}) {
		t.Errorf("without the large backlog: got %v and error %v, want queue alone", names(got), err)
	}
	if got, err = choose(experiments(), options{only: "kafka,modes,modes3", large: true}); err != nil || !slices.Equal(names(got), []string{"kafka"}) {
		t.Errorf("without a real Kafka: got %v and error %v, want kafka alone", names(got), err)
	}
	if got, err = choose(experiments(), options{only: "queue,engine"}); err != nil || !slices.Equal(names(got), []string{"queue"}) {
		t.Errorf("without Gatekeeper: got %v, %v", names(got), err)
	}
	if _, err := choose(experiments(), options{only: "open"}); err == nil {
		t.Error("nothing left to measure: got no error")
	}
}

// A producer gets its acks from the server to compare with, which speaks the
// same protocol as docket.
func TestProducerAndAnswer(t *testing.T) {
	for _, window := range []int{1, 100} {
		socket := filepath.Join(t.TempDir(), "s")
		ended := make(chan error, 1)
		go func() { ended <- answerMain(t.Context(), []string{socket}, nil) }()
		p, err := load.Connect(socket, 0, record.NewBlock(0))
		if err != nil {
			t.Fatal(err)
		}
		waits, err := p.Send(1000, window)
		if err != nil || len(waits) < 1000/load.LinesPerWrite {
			t.Errorf("window %d: got the waits of %d writes and error %v, want that of each write", window, len(waits), err)
		}
		p.Close()
		if err := <-ended; err != nil {
			t.Errorf("answer: %v", err)
		}
	}
}
