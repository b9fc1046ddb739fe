package main

import (
	_ "embed"

	"github.com/docket-export/docket/bench/report"
	"github.com/docket-export/docket/bench/trial"
)

//go:embed experiments.yaml
var table []byte

// experiments are all there are, in the order of the table.
func experiments() (all []experiment) {
	report.Data(table, &all)
	return all
}

// runs measure once and return a value for the key of every row that is not a ratio.
var runs = map[string]func(*lab) values{
	"ingest":      (*lab).ingest,
	"burst":       (*lab).burst,
	"sinks":       (*lab).sinkCost,
	"growing":     (*lab).growing,
	"single":      (*lab).single,
	"export":      (*lab).readExport,
	"idleSources": (*lab).idleSources,
	"accepting":   (*lab).accepting,
	"backlog":     (*lab).backlog,
	"http":        (*lab).http,
	"kafka":       (*lab).kafka,
	"modes":       (*lab).modesOfOne,
	"modes3":      (*lab).modesOfThree,
	"trylog":      (*lab).tryLog,
	"tap":         (*lab).tapPace,
	"tapLoad":     (*lab).tapLoad,
	"tapMemory":   (*lab).tapMemory,
	"engine":      (*lab).policyEngine,
	"connected":   (*lab).connected,
	"queue":       (*lab).queueRates,
	"flat":        (*lab).flatness,
	"open":        (*lab).opening,
	"start500":    (*lab).starting,
	"load":        (*lab).fullLoad,
	"paces":       (*lab).paces,
	"idle":        (*lab).idle,
}

// checks say, before anything is measured, why an experiment cannot be. Those with the
// large backlog need room for it as well, and those with a real Kafka need that.
var checks = map[string]func(*lab){
	"ingest":    (*lab).buildUnsynced,
	"connected": func(*lab) { trial.Check(enoughFiles(openFiles())) },
}

// once runs an experiment.
func (l *lab) once(e *experiment) (v values) {
	l.Part(e.Name, onceWait, func(t *trial.T) {
		at := l.in(t)
		at.experiment = e.Name
		v = runs[e.Name](at)
	})
	return v
}
