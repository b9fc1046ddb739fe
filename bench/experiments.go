package main

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"

	"go.yaml.in/yaml/v3"
)

const (
	producers     = 8
	linesInFlight = 1024 // of each producer
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
	for i := range all {
		all[i].run, all[i].check = runs[all[i].Name], checks[all[i].Name]
		if all[i].Large {
			all[i].check = (*lab).checkRoom
		}
	}
	return all
}

// checks say, before anything is measured, why an experiment cannot be.
var checks = map[string]func(*lab) error{
	"ingest":    (*lab).buildUnsynced,
	"connected": (*lab).checkFiles,
}

// runs measure once and return a value for the key of every row that is not a ratio.
var runs = map[string]func(*lab, context.Context) (map[string]float64, error){
	"ingest":      (*lab).ingest,
	"burst":       (*lab).burst,
	"sinks":       (*lab).sinkCost,
	"growing":     (*lab).ingestHeldBack,
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
	"read":        (*lab).readBacklog,
	"cursors":     (*lab).followers,
	"flat":        (*lab).flatness,
	"open":        (*lab).opening,
	"start500":    (*lab).starting,
	"load":        (*lab).fullLoad,
	"outage":      func(l *lab, ctx context.Context) (map[string]float64, error) { return l.outage(ctx, shortOutage) },
	"outage60":    func(l *lab, ctx context.Context) (map[string]float64, error) { return l.outage(ctx, longOutage) },
	"paces":       (*lab).paces,
	"idle":        (*lab).idle,
}

// ingestHeldBack measures the intake beside a sink that cannot deliver, at once and not in laps.
func (l *lab) ingestHeldBack(ctx context.Context) (map[string]float64, error) {
	values, err := l.ingestInto(ctx, heldBack)
	if err != nil {
		return nil, err
	}
	return values, l.addRaw(ctx, values)
}

// addRaw adds the rates of the raw programs at the commit size in values.
func (l *lab) addRaw(ctx context.Context, values map[string]float64) error {
	raw, err := l.raw(ctx, values["perCommit"], l.records)
	values["appended"], values["recycled"] = raw.appended, raw.recycled
	return err
}

func (l *lab) ingestInto(ctx context.Context, sink string) (map[string]float64, error) {
	dir, remove, err := l.scratch()
	if err != nil {
		return nil, err
	}
	defer remove()
	s, err := l.startWarm(ctx, dir, sink)
	if err != nil {
		return nil, err
	}
	defer s.kill()
	return s.ingest(ctx, l)
}

// warmRecords is what docket gets before it is measured: a sidecar runs for days
// with its buffers as large as they get.
const warmRecords = 4 * producers * linesInFlight

// startWarm starts docket and gives it warmRecords.
func (l *lab) startWarm(ctx context.Context, dir, sink string) (*sidecar, error) {
	s, err := l.startSidecar(ctx, dir, sink)
	if err != nil {
		return nil, err
	}
	if _, err := l.produce(ctx, load{s.socket, producers, linesInFlight, warmRecords}); err != nil {
		s.kill()
		return nil, err
	}
	return s, nil
}

func (s *sidecar) ingest(ctx context.Context, l *lab) (map[string]float64, error) {
	defer s.profile(ctx)()
	commits, err := s.commits(ctx)
	if err != nil {
		return nil, err
	}
	cpu, err := s.CPUTime()
	if err != nil {
		return nil, err
	}
	p, err := l.produce(ctx, load{s.socket, producers, linesInFlight, l.records})
	if err != nil {
		return nil, err
	}
	cpuAfter, err := s.CPUTime()
	if err != nil {
		return nil, err
	}
	commitsAfter, err := s.commits(ctx)
	if err != nil {
		return nil, err
	}
	memory, err := s.Memory("VmHWM")
	if err != nil {
		return nil, err
	}
	n := float64(l.records / producers * producers)
	return map[string]float64{
		"rate": n / p.Seconds, "perCommit": n / (commitsAfter - commits), "memory": memory,
		"cpu": (cpuAfter - cpu).Seconds() / n * 1e6,
	}, nil
}

func (l *lab) idle(ctx context.Context) (map[string]float64, error) {
	dir, remove, err := l.scratch()
	if err != nil {
		return nil, err
	}
	defer remove()
	s, err := l.startSidecar(ctx, dir, toFile)
	if err != nil {
		return nil, err
	}
	defer s.kill()
	p, err := connect(s.socket, 0, nil)
	if err != nil {
		return nil, err
	}
	defer p.nc.Close()
	memory, err := s.restingMemory(ctx)
	if err != nil {
		return nil, err
	}
	binary, err := os.Stat(l.docket)
	if err != nil {
		return nil, fmt.Errorf("size of the binary: %w", err)
	}
	return map[string]float64{"memory": memory, "binary": float64(binary.Size()) / 1e6}, nil
}
