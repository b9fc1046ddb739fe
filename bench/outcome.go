package main

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/docket-export/docket/bench/report"
)

// outcome is everything that one run has measured. It is a report.Report.
type outcome struct {
	report.Head
	Experiments []experiment `json:"experiments"`
}

//go:embed page.md
var page string

// Text implements report.Report.
func (o *outcome) Text() string { return page }

// experiment is a group of rows that one run fills together, as experiments.yaml has it.
// As JSON it is its name and what was measured.
type experiment struct {
	Name  string `json:"name"` // as -only takes it
	Title string `json:"-"`    // what is measured
	About string `json:"-"`    // how, for the page
	Large bool   `json:"-"`    // needs the large backlog
	Kafka bool   `json:"-"`    // needs a real Kafka
	// Gatekeeper: needs a real one, and an API server.
	Gatekeeper bool  `json:"-"`
	Rows       []row `json:"rows"`
}

// row is one figure, with a value for each round.
type row struct {
	Key    string         `json:"key"`
	What   string         `json:"-"`
	Unit   string         `json:"unit,omitempty"`
	Ratio  *ratio         `json:"-"`
	Target *report.Target `json:"-"`
	Values []float64      `json:"values"`
}

// ratio says of which two other rows a row is the quotient, round by round.
type ratio struct{ Of, To string }

// values are what an experiment has measured in one round, by the key of the row.
type values map[string]float64

// add takes the values of one round. A value that no row shows, or a row without
// one, is a mistake in the experiment.
func (e *experiment) add(v values) error {
	used := 0
	for i := range e.Rows {
		r := &e.Rows[i]
		if r.Ratio != nil {
			r.Values = append(r.Values, v[r.Ratio.Of]/v[r.Ratio.To])
			continue
		}
		value, ok := v[r.Key]
		if !ok {
			return fmt.Errorf("%s was not measured", r.Key)
		}
		r.Values = append(r.Values, value)
		used++
	}
	if used != len(v) {
		return fmt.Errorf("measured %d values for %d rows", len(v), used)
	}
	return nil
}

// missed reports whether r has a target that its median does not reach.
func (r row) missed() bool { return r.Target != nil && !r.Target.Met(r.Values) }

// Table is what is shown of e, the head first.
func (e experiment) Table() [][]string {
	rows := [][]string{{"what", "median", "range", "target", ""}}
	for _, r := range e.Rows {
		rows = append(rows, r.Cells())
	}
	return rows
}

// Cells are what is shown of a row: what, median, range, target, verdict.
func (r row) Cells() []string {
	s := report.Summarize(r.Values)
	c := []string{r.What, strings.TrimSpace(report.Number(s.Median) + " " + r.Unit), s.Range(), "", ""}
	if r.Target != nil {
		c[3], c[4] = r.Target.String(), r.Target.Verdict(r.Values)
	}
	return c
}

// Judgement says which targets are not met.
func (o *outcome) Judgement() string {
	targets, missed := 0, []string{}
	for _, e := range o.Experiments {
		for _, row := range e.Rows {
			if row.Target != nil {
				targets++
			}
			if row.missed() {
				missed = append(missed, fmt.Sprintf("%s (%s: %s, %s asked)", row.What, e.Name, row.Cells()[1], row.Target))
			}
		}
	}
	s := fmt.Sprintf("%d of %d targets met.", targets-len(missed), targets)
	if len(missed) > 0 {
		s += " Not met:\n- " + strings.Join(missed, "\n- ")
	}
	return s
}

// readOutcome reads results and says of them what experiments.yaml says now. What it has no
// more is left out.
func readOutcome(name string) (*outcome, error) {
	var o outcome
	if err := report.ReadJSON(name, &o); err != nil {
		return nil, err
	}
	measured := map[string][]float64{}
	for _, e := range o.Experiments {
		for _, row := range e.Rows {
			measured[e.Name+" "+row.Key] = row.Values
		}
	}
	there := names(o.Experiments)
	o.Experiments = slices.DeleteFunc(experiments(), func(e experiment) bool { return !slices.Contains(there, e.Name) })
	for _, e := range o.Experiments {
		for i := range e.Rows {
			row := &e.Rows[i]
			if row.Values = measured[e.Name+" "+row.Key]; len(row.Values) == 0 {
				return nil, fmt.Errorf("%s: %s of %s has no values", name, row.Key, e.Name)
			}
		}
	}
	return &o, nil
}

func names(list []experiment) []string {
	all := make([]string, len(list))
	for i, e := range list {
		all[i] = e.Name
	}
	return all
}
