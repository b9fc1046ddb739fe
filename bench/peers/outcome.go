package main

import (
	"context"
	"fmt"

	"github.com/docket-export/docket/bench/report"
)

// outcome is everything that one run has measured. It is a report.Report.
type outcome struct {
	report.Head
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

// measure is one thing that is measured of every contender.
type measure struct {
	Name    string   `json:"name"`
	Title   string   `json:"title"`
	About   string   `json:"about"` // what the clock covers and what counts, for the page
	Columns []column `json:"columns"`
	// Results has the figures of a contender, by its key and the column's, with a
	// value for each round.
	Results map[string]map[string][]float64 `json:"results"`

	run func(*lab, context.Context, contender) (figures, error)
}

type column struct {
	Key  string `json:"key"`
	What string `json:"what"` // as the head of the table says it, with its unit
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

// measures are all there are, in the order of the page.
func measures() []measure {
	const (
		rate = "rate, records/s"
		cpu  = "processor time, s for a million"
		peak = "memory, peak, MB"
		idle = "memory at rest, MB"
		lost = "lost"
		all  = "until the last, ms"
	)
	return []measure{
		{
			Name: "intake", Title: "Intake while the sink is down",
			About: "Nobody listens where the records are to be sent. The clock runs from the first write of a producer until everything was taken:\n" +
				"the last record acknowledged or, where there are no acks, the end of every stream read and its connection closed, so that\n" +
				"nothing is left in a socket. Queues in memory are made large enough. Processor time is that of the program meanwhile, memory is read\n" +
				"at the end. Then the HTTP server comes up: *lost* is what was sent and has not arrived when nothing more has come for 3 seconds.",
			Columns: []column{{"rate", rate}, {"cpu", cpu}, {"peak", peak}, {"lost", lost}},
			run:     (*lab).intake,
		},
		{
			Name: "http", Title: "End to end to HTTP",
			About: "The HTTP server answers 200 to everything at once, compares each record with what was sent, byte by byte, and counts it once. The clock runs from the first\n" +
				"write of a producer. The rate is over the time until 99 of 100 of the records that came had arrived; when the very last came, which may have waited for others\n" +
				"to share a request with, is a column of its own. *Lost* never came. Processor time is that of the program until then; memory at rest is read a second after the start.",
			Columns: []column{{"rate", rate}, {"all", all}, {"cpu", cpu}, {"idle", idle}, {"peak", peak}, {"lost", lost}},
			run:     (*lab).throughHTTP,
		},
		{
			Name: "file", Title: "End to end to a file",
			About: "The same with a file on the disk of the queue, whose size is looked at every millisecond. When it is that of everything that was sent, or has not\n" +
				"grown for 3 seconds, the program is killed, and the file is compared with what was sent, byte by byte.",
			Columns: []column{{"rate", rate}, {"all", all}, {"cpu", cpu}, {"idle", idle}, {"peak", peak}, {"lost", lost}},
			run:     (*lab).throughFile,
		},
		{
			Name: "kill", Title: "Lost by SIGKILL while the sink is down",
			About: fmt.Sprintf("Producers send %s records at %s a second while nobody listens at the other end. A tenth of a second after the last was taken\n"+
				"the program gets SIGKILL; it is started again, the HTTP server comes up, and when nothing more has come for 3 seconds, what is missing is lost.\n"+
				"This is the end of a process, not of the machine: at a power cut everything that was not synced is gone as well.", report.Number(killRecords), report.Number(killRate)),
			Columns: []column{{"sent", "sent"}, {"lost", lost}, {"again", "arrived twice"}},
			run:     (*lab).killed,
		},
	}
}

func readOutcome(name string) (*outcome, error) {
	var o outcome
	if err := report.ReadJSON(name, &o); err != nil {
		return nil, err
	}
	for _, m := range o.Measures {
		for _, e := range o.Contenders {
			for _, c := range m.Columns {
				if got := len(m.Results[e.Key][c.Key]); got != o.Rounds {
					return nil, fmt.Errorf("%s: %s of %s has %d values for %s, want %d", name, m.Name, e.Key, got, c.Key, o.Rounds)
				}
			}
		}
	}
	return &o, nil
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
