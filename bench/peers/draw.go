package main

import (
	"github.com/docket-export/docket/bench/chart"
	"github.com/docket-export/docket/bench/report"
)

// drawing is a chart of one column of several measures.
type drawing struct {
	file   string
	title  string
	about  string
	column string
	unit   string
}

var drawings = []drawing{
	{"rate.svg", "Records a second", "On a logarithmic axis. Hollow: a setting that loses records, on that way or by SIGKILL.", "rate", "records/s"},
	{"cpu.svg", "Processor time for a million records", "Of the program alone, on a logarithmic axis; less is better. Hollow: a setting that loses records.", "cpu", "s"},
}

// chart draws the column of every measure that has it. A hollow bar is of a setting
// that loses records, on that way or by SIGKILL.
func (d drawing) chart(r *outcome) *chart.Chart {
	c := &chart.Chart{
		Title: d.title, About: d.about, Unit: d.unit, Log: true,
		Legend: map[chart.Look]string{
			chart.Own: "docket", chart.Beside: "loses nothing", chart.Failing: "loses records",
		},
	}
	for _, m := range r.Measures {
		g := chart.Group{Title: m.Title}
		for _, e := range r.Contenders {
			values := m.Results[e.Key][d.column]
			if len(values) == 0 {
				continue
			}
			g.Bars = append(g.Bars, report.Summarize(values).Bar(e.name(), r.look(m.Name, e)))
		}
		if len(g.Bars) > 0 {
			c.Groups = append(c.Groups, g)
		}
	}
	return c
}

func (r *outcome) look(measureName string, e entry) chart.Look {
	switch {
	case !r.safe(measureName, e.Key):
		return chart.Failing
	case e.Peer == docket.name:
		return chart.Own
	}
	return chart.Beside
}
