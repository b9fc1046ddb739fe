package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/docket-export/docket/bench/chart"
	"github.com/docket-export/docket/bench/report"
)

// drawn says which rows of an experiment are shown as bars, all in one unit.
type drawn struct {
	Keys []string `json:"keys"`
	Own  []string `json:"own"` // those of docket
	Log  bool     `json:"log,omitempty"`
}

// charts are what the page shows of e beside its table.
func (e *experiment) charts() (all []*chart.Chart) {
	for _, d := range e.Charts {
		c := &chart.Chart{
			Title: e.Title, Log: d.Log,
			Legend: map[chart.Look]string{chart.Own: "docket", chart.Beside: "what it is compared with"},
		}
		var bars []chart.Bar
		for _, key := range d.Keys {
			r := e.row(key)
			if r == nil {
				continue
			}
			c.Unit = cmp.Or(c.Unit, r.Unit)
			look := chart.Beside
			if slices.Contains(d.Own, key) {
				look = chart.Own
			}
			bars = append(bars, r.bar(r.What, look))
		}
		if len(bars) > 0 { // results of before may have other rows
			c.Groups = []chart.Group{{Bars: bars}}
			all = append(all, c)
		}
	}
	return all
}

func (e *experiment) row(key string) *row {
	for i := range e.Rows {
		if e.Rows[i].Key == key {
			return &e.Rows[i]
		}
	}
	return nil
}

// bar shows a row.
func (r *row) bar(label string, look chart.Look) chart.Bar {
	b := report.Summarize(r.Values).Bar(label, look)
	switch {
	case r.Target == nil || r.Target.Zero:
	case r.Target.AtMost > 0:
		b.Target = &chart.Target{Value: r.Target.AtMost, AtMost: true}
	default:
		b.Target = &chart.Target{Value: r.Target.AtLeast}
	}
	return b
}

// overview is a chart of rows of several experiments.
type overview struct {
	file string
	*chart.Chart
}

// overviews are those that r has figures for.
func overviews(r *outcome) (all []overview) {
	for _, o := range []overview{
		{"targets.svg", targetChart(r)},
		{"cpu.svg", rowChart(r, "Processor time of docket for a million records", "s", map[string]string{"ingest": "cpu", "growing": "cpu", "delivering": "cpu", "backlog": "cpu", "http": "cpu", "kafka": "cpu", "accepting": "cpu", "load": "cpu"})},
		{"memory.svg", rowChart(r, "Resident memory, peak", "MB", map[string]string{"idle": "memory", "idleSources": "memory", "ingest": "memory", "start500": "closedMemory", "load": "memory", "export": "memory"})},
	} {
		if len(o.Groups) > 0 && len(o.Groups[0].Bars) > 0 {
			all = append(all, o)
		}
	}
	return all
}

// targetChart shows how far each target is reached: beyond 1 it is met, whether more is
// asked of the figure or less.
func targetChart(r *outcome) *chart.Chart {
	c := &chart.Chart{
		Title: "Targets", Log: true, Origin: 1,
		About:  "How far each target is reached, on a logarithmic axis: what was measured divided by what is asked, or the other way round where less is better. From 1 on it is met. Targets of 0 are in the tables.",
		Legend: map[chart.Look]string{chart.Own: "met", chart.Failing: "not met"},
	}
	for _, e := range r.Experiments {
		g := chart.Group{Title: e.Title}
		for i := range e.Rows {
			row := &e.Rows[i]
			if row.Target == nil || row.Target.Zero {
				continue
			}
			median := report.Summarize(row.Values).Median
			reached := median / row.Target.AtLeast
			if row.Target.AtMost > 0 {
				reached = row.Target.AtMost / median
			}
			look := chart.Own
			if row.missed() {
				look = chart.Failing
			}
			value := chart.Number(median)
			if len(row.Unit) <= 3 { // what is longer has no room
				value = strings.TrimSpace(value + " " + row.Unit)
			}
			// What is a hundred times better or worse than asked says no more than ten.
			g.Bars = append(g.Bars, chart.Bar{
				Label: row.What, Value: min(max(reached, 0.1), 10), Look: look, Text: value + ", asked " + row.Target.String(),
			})
		}
		if len(g.Bars) > 0 {
			c.Groups = append(c.Groups, g)
		}
	}
	return c
}

// rowChart shows one row of each of some experiments.
func rowChart(r *outcome, title, unit string, rows map[string]string) *chart.Chart {
	c := &chart.Chart{Title: title, Unit: unit, Groups: []chart.Group{{}}}
	for i := range r.Experiments {
		e := &r.Experiments[i]
		if row := e.row(rows[e.Name]); row != nil {
			look := chart.Own
			if row.missed() {
				look = chart.Failing
			}
			c.Groups[0].Bars = append(c.Groups[0].Bars, row.bar(e.Title, look))
		}
	}
	c.Legend = map[chart.Look]string{chart.Own: "docket", chart.Failing: "docket, above its target"}
	return c
}
