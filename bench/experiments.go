package main

import (
	"bytes"
	"context"
	_ "embed"

	"go.yaml.in/yaml/v3"

	"github.com/docket-export/docket/bench/trial"
)

//go:embed experiments.yaml
var table []byte

// experiments are all there are, in the order of the table.
func experiments() []experiment {
	var all []experiment
	entries := yaml.NewDecoder(bytes.NewReader(table))
	entries.KnownFields(true)
	if err := entries.Decode(&all); err != nil {
		panic(err) // a mistake in experiments.yaml, which every test would find
	}
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
	"trylog":      (*lab).tryLog,
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
// large backlog need room for it as well.
var checks = map[string]func(*lab){
	"ingest":    (*lab).buildUnsynced,
	"connected": func(*lab) { trial.Check(enoughFiles(openFiles())) },
}

// once runs an experiment.
func (l *lab) once(ctx context.Context, e *experiment) (v values, err error) {
	ctx, cancel := context.WithTimeout(ctx, onceWait)
	defer cancel()
	err = trial.Run(ctx, func(t *trial.T) {
		at := *l
		at.T, at.experiment = t, e.Name
		v = runs[e.Name](&at)
	})
	return v, err
}
