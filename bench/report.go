package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/docket-export/docket/bench/host"
)

// report is everything that one run has measured. Its JSON form is what -json
// writes and -from reads.
type report struct {
	Machine     host.Machine `json:"machine"`
	Rounds      int          `json:"rounds"`
	Records     int          `json:"records"`
	Experiments []experiment `json:"experiments"`
}

// experiment is a group of rows that one run fills together.
type experiment struct {
	Name  string `json:"name"`  // as -only takes it
	Title string `json:"title"` // what is measured
	About string `json:"about"` // how, for the page
	Rows  []row  `json:"rows"`
	// Charts are drawn for the page.
	Charts []drawn `json:"charts,omitempty"`

	// large says that it needs the large backlog.
	large bool
	// named says that it takes long, and is run only when -only names it.
	named bool
	// check says, before anything is measured, why it cannot be; nil: it always
	// can.
	check func(*lab) error
	// run measures once and returns a value for the key of every row that is
	// not a ratio.
	run func(*lab, context.Context) (map[string]float64, error)
}

// row is one figure, with a value for each round.
type row struct {
	Key    string    `json:"key"`
	What   string    `json:"what"`
	Unit   string    `json:"unit,omitempty"`
	Ratio  *ratio    `json:"ratio,omitempty"`
	Target *target   `json:"target,omitempty"`
	Values []float64 `json:"values"`
}

// ratio says of which two other rows a row is the quotient, round by round.
type ratio struct {
	Of string `json:"of"`
	To string `json:"to"`
}

// target is what the median of a row has to reach; one of the three is set.
type target struct {
	AtLeast float64 `json:"atLeast,omitempty"`
	AtMost  float64 `json:"atMost,omitempty"`
	Zero    bool    `json:"zero,omitempty"`
}

func (t target) met(v float64) bool {
	switch {
	case t.Zero:
		return v == 0
	case t.AtMost > 0:
		return v <= t.AtMost
	}
	return v >= t.AtLeast
}

func (t target) String() string {
	switch {
	case t.Zero:
		return "0"
	case t.AtMost > 0:
		return fmt.Sprintf("<= %g", t.AtMost)
	}
	return fmt.Sprintf(">= %g", t.AtLeast)
}

// add takes the values of one round. A value that no row shows, or a row without
// one, is a mistake in the experiment.
func (e *experiment) add(values map[string]float64) error {
	used := 0
	for i := range e.Rows {
		r := &e.Rows[i]
		if r.Ratio != nil {
			r.Values = append(r.Values, values[r.Ratio.Of]/values[r.Ratio.To])
			continue
		}
		v, ok := values[r.Key]
		if !ok {
			return fmt.Errorf("%s was not measured", r.Key)
		}
		r.Values = append(r.Values, v)
		used++
	}
	if used != len(values) {
		return fmt.Errorf("measured %d values for %d rows", len(values), used)
	}
	return nil
}

// summary is what is shown of the values of a row.
type summary struct {
	median, least, greatest float64
}

func summarize(values []float64) summary {
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	return summary{median: (s[(n-1)/2] + s[n/2]) / 2, least: s[0], greatest: s[n-1]}
}

// verdict says whether the median reaches the target; a row without one has none.
func (r row) verdict() string {
	switch {
	case r.Target == nil:
		return ""
	case r.Target.met(summarize(r.Values).median):
		return met
	}
	return "NOT met"
}

// met is the verdict of a row that reaches its target.
const met = "met"

func (r *report) encode(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

func readReport(name string) (*report, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var r report
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for _, e := range r.Experiments {
		for _, row := range e.Rows {
			if len(row.Values) == 0 {
				return nil, fmt.Errorf("%s: %s of %s has no values", name, row.Key, e.Name)
			}
		}
	}
	return &r, nil
}

func names(list []experiment) []string {
	all := make([]string, len(list))
	for i, e := range list {
		all[i] = e.Name
	}
	return all
}
