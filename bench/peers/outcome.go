package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/docket-export/docket/bench/report"
	"github.com/docket-export/docket/bench/trial"
)

// outcome is everything that one run has measured. It is a report.Report.
type outcome struct {
	report.Head
	Note       string    `json:"note,omitempty"` // on the conditions
	Contenders []entry   `json:"contenders"`
	Measures   []measure `json:"measures"`
}

// entry is a contender as the results name it.
type entry struct {
	Key     string `json:"key"`
	Peer    string `json:"peer"`
	Setting string `json:"setting"`
	About   string `json:"about"`
	Version string `json:"version"`
}

// Name is what the tables call it.
func (e entry) Name() string { return e.Peer + ", " + e.Setting }

// measure is one thing that is measured of every contender, as measures.yaml has it. As
// JSON it is its name and what was measured.
type measure struct {
	Name    string   `json:"name"`
	Title   string   `json:"-"`
	About   string   `json:"-"` // what the clock covers and what counts, for the page
	Columns []column `json:"-"`
	// Results has the figures of a contender, by its key and the column's, with a
	// value for each round.
	Results map[string]map[string][]float64 `json:"results" yaml:"-"`
}

type column struct {
	Key  string
	What string // as the head of the table says it, with its unit
}

// claim is what docket has to reach.
type claim struct {
	What, Measure, Column, Beside string
	Target                        report.Target
	values                        []float64 // by round
}

// Cells are what is shown of a claim: what, measured, target, verdict.
func (c claim) Cells() []string {
	return []string{c.What, cell(c.values), c.Target.String(), c.Target.Verdict(c.values)}
}

// work is what there is to measure and to claim, in the order of the page.
func work() (w struct {
	Measures  []measure
	Safest    []string // keys of contenders
	Headlines []headline
	Claims    []claim
}) {
	parse("measures.yaml", &w)
	return w
}

func measureNames() (names []string) {
	for _, m := range work().Measures {
		names = append(names, m.Name)
	}
	return names
}

// chosenMeasures are those that the list names, all for an empty list.
func chosenMeasures(list string) ([]measure, error) {
	all, wanted := work().Measures, strings.Split(list, ",")
	if list == "" {
		return all, nil
	}
	for _, name := range wanted {
		if !slices.Contains(measureNames(), name) {
			return nil, fmt.Errorf("-measure: there is no %q, only %s", name, strings.Join(measureNames(), ", "))
		}
	}
	return slices.DeleteFunc(all, func(m measure) bool { return !slices.Contains(wanted, m.Name) }), nil
}

// add takes what one contender has given in one round.
func (m *measure) add(key string, f figures) error {
	if len(f) != len(m.Columns) {
		return fmt.Errorf("measured %d values for %d columns", len(f), len(m.Columns))
	}
	if m.Results == nil {
		m.Results = map[string]map[string][]float64{}
	}
	if m.Results[key] == nil {
		m.Results[key] = map[string][]float64{}
	}
	for _, c := range m.Columns {
		v, ok := f[c.Key]
		if !ok {
			return fmt.Errorf("%s was not measured", c.Key)
		}
		m.Results[key][c.Key] = append(m.Results[key][c.Key], v)
	}
	return nil
}

// line says the figures of one measurement in one line.
func (f figures) line(columns []column) string {
	var parts []string
	for _, c := range columns {
		parts = append(parts, c.Key+" "+report.Number(f[c.Key]))
	}
	return strings.Join(parts, ", ")
}

// readOutcome reads results and says of them what measures.yaml says now.
func readOutcome(name string) (*outcome, error) {
	var o outcome
	if err := report.ReadJSON(name, &o); err != nil {
		return nil, err
	}
	measured := map[string]map[string]map[string][]float64{}
	for _, m := range o.Measures {
		measured[m.Name] = m.Results
	}
	o.Measures = work().Measures
	for i := range o.Measures {
		m := &o.Measures[i]
		m.Results = measured[m.Name]
		for key, results := range m.Results { // some contenders skip a measure
			for _, c := range m.Columns {
				if got := len(results[c.Key]); got != o.Rounds {
					return nil, fmt.Errorf("%s: %s of %s has %d values for %s, want %d", name, m.Name, key, got, c.Key, o.Rounds)
				}
			}
		}
	}
	return &o, nil
}

// Text implements report.Report.
func (*outcome) Text() string { return string(trial.Must(files.ReadFile("page.md"))) }

// Conditions says what the figures are.
func (r *outcome) Conditions() string {
	return fmt.Sprintf("%s, or what is sent within %v.", r.Head.Conditions(), loadLimit)
}

// cell is what a table shows of the rounds: the median, and the range where there is
// one.
func cell(values []float64) string {
	s := report.Summarize(values)
	if s.Range() == "" {
		return report.Number(s.Median)
	}
	return fmt.Sprintf("%s (%s)", report.Number(s.Median), s.Range())
}

// Rows are the lines of the table of m, its head first.
func (r *outcome) Rows(m measure) [][]string {
	head := []string{""}
	for _, c := range m.Columns {
		head = append(head, c.What)
	}
	rows := [][]string{head}
	for _, e := range r.Contenders {
		if m.Results[e.Key] == nil {
			continue
		}
		cells := []string{e.Name()}
		for _, c := range m.Columns {
			cells = append(cells, cell(m.Results[e.Key][c.Key]))
		}
		rows = append(rows, cells)
	}
	return rows
}

// headline is one figure of every program in its safest setting.
type headline struct {
	What, Unit, Measure, Column string
	Full                        float64 // of the longest bar, at least
}

// bar is what a headline says of one program.
type bar struct {
	name  string
	value float64
	own   bool
}

// bars are what there is to show of h, docket last.
func (r *outcome) bars(h headline) (all []bar) {
	for _, key := range work().Safest {
		if values := r.values(h.Measure, key, h.Column); len(values) > 0 {
			name, _, _ := strings.Cut(key, "/")
			all = append(all, bar{name, report.Summarize(values).Median, key == own})
		}
	}
	return all
}

// Headlines are a table of them.
func (r *outcome) Headlines() [][]string {
	var rows [][]string
	for _, h := range work().Headlines {
		bars := r.bars(h)
		if len(bars) == 0 {
			continue
		}
		head, cells := []string{""}, []string{h.What + ", " + h.Unit}
		for _, b := range bars {
			head, cells = append(head, b.name), append(cells, report.Number(b.value))
		}
		if len(rows) == 0 {
			rows = append(rows, head)
		}
		rows = append(rows, cells)
	}
	return rows
}

// own is the contender that claims are about, and fastest stands for several.
const (
	own     = "docket/default"
	fastest = "fastest"
)

// Targets is a table of the claims.
func (r *outcome) Targets() [][]string {
	rows := [][]string{{"ratio", "measured", "asked for", ""}}
	for _, c := range r.Claims() {
		rows = append(rows, c.Cells())
	}
	return rows
}

// Settings is a table of what was measured.
func (r *outcome) Settings() [][]string {
	rows := [][]string{{"", "version", "setting"}}
	for _, e := range r.Contenders {
		rows = append(rows, []string{e.Name(), e.Version, e.About})
	}
	return rows
}

// Claims are those for which everything was measured.
func (r *outcome) Claims() []claim {
	all := work().Claims
	for i := range all {
		c := &all[i]
		c.values = r.values(c.Measure, own, c.Column)
		switch c.Beside {
		case "":
		case fastest:
			c.values = quotients(c.values, r.fastestSafe(c.Measure))
		default:
			c.values = quotients(c.values, r.values(c.Measure, c.Beside, c.Column))
		}
	}
	return slices.DeleteFunc(all, func(c claim) bool { return len(c.values) == 0 })
}

// fastestSafe returns the greatest rate of each round among the others that have a queue
// on disk and lose nothing on the way of this measure, in no round.
func (r *outcome) fastestSafe(measureName string) []float64 {
	var most []float64
	for _, e := range r.Contenders {
		rates := r.values(measureName, e.Key, "rate")
		if strings.HasPrefix(e.Key, "docket/") || rates == nil || !r.safe(measureName, e.Key) {
			continue
		}
		if most == nil {
			most = slices.Clone(rates)
		}
		for round, rate := range rates {
			most[round] = max(most[round], rate)
		}
	}
	return most
}

// safe says whether a contender has a queue on disk, over which it can start, and has lost
// nothing.
func (r *outcome) safe(measureName, key string) bool {
	lost := r.values(measureName, key, "lost")
	return r.values("start", key, "first") != nil && !slices.ContainsFunc(lost, func(v float64) bool { return v != 0 })
}

// values are what a contender has given, by round; nil where it or the measure is
// not there.
func (r *outcome) values(measureName, key, columnKey string) []float64 {
	for _, m := range r.Measures {
		if m.Name == measureName {
			return m.Results[key][columnKey]
		}
	}
	return nil
}

// quotients are those of a and b round by round; nil where one was not measured.
func quotients(a, b []float64) []float64 {
	if len(a) != len(b) {
		return nil
	}
	var q []float64
	for i := range a {
		q = append(q, a[i]/b[i])
	}
	return q
}
