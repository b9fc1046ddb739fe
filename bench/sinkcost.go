package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
)

// sinkCostTurns keep the time of all these laps, and the rests between them, within
// reason.
const sinkCostTurns = 4

// sinkCost measures what sinks cost the intake: while they wait, and while they
// follow.
func (l *lab) sinkCost(ctx context.Context) (map[string]float64, error) {
	dir, remove, err := l.scratch()
	if err != nil {
		return nil, err
	}
	defer remove()
	kinds := []struct {
		key    string
		sinks  int
		follow bool
		total  stint
	}{
		{key: "wait1", sinks: 1}, {key: "wait2", sinks: 2}, {key: "wait4", sinks: 4}, {key: "wait8", sinks: manySinks},
		{key: "follow1", sinks: 1, follow: true}, {key: "follow8", sinks: manySinks, follow: true},
	}
	dockets := map[int]*steady{}
	for _, k := range kinds {
		if dockets[k.sinks] != nil {
			continue
		}
		name := fmt.Sprint("sinks-", k.sinks)
		s, err := l.startSteady(ctx, filepath.Join(dir, name), setup{socket: name}, k.sinks)
		if err != nil {
			return nil, err
		}
		defer s.end()
		dockets[k.sinks] = s
	}
	for range sinkCostTurns {
		for i := range kinds {
			k := &kinds[i]
			s := dockets[k.sinks]
			lap, err := s.lap(ctx, load{Producers: producers, Window: linesInFlight, Records: lapRecords}, k.follow)
			if err != nil {
				return nil, errors.Join(err, s.LastWords())
			}
			k.total.add(lap)
		}
	}
	values := map[string]float64{}
	for _, k := range kinds {
		values[k.key], values[k.key+"CPU"] = k.total.rate(), k.total.cpuOfMillion()
	}
	return values, nil
}
