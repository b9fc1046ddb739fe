package main

import (
	"context"
	"errors"
	"path/filepath"
)

// queueRates measures the queue in its three lives: what it holds was taken
// before, is taken meanwhile, or stays.
func (l *lab) queueRates(ctx context.Context) (map[string]float64, error) {
	values := map[string]float64{}
	for _, measure := range []func(context.Context, map[string]float64) error{l.recycling, l.growing, l.addRaw, l.addWAL} {
		if err := measure(ctx, values); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// recycling measures a queue whose records are taken, so that segments come back.
func (l *lab) recycling(ctx context.Context, values map[string]float64) error {
	dir, remove, err := l.scratch()
	if err != nil {
		return err
	}
	defer remove()
	t, err := openTrack(filepath.Join(dir, "queue"), 1)
	if err != nil {
		return err
	}
	alone, taken, err := t.recycling(ctx, l.laps(), 2*l.records)
	if err := errors.Join(err, t.close(ctx)); err != nil {
		return err
	}
	values["rate"], values["perCommit"], values["taken"] = alone.rate(), alone.perCommit(), taken.rate()
	return nil
}

func (t *track) recycling(ctx context.Context, laps, records int) (alone, taken pace, err error) {
	if _, err = t.laps(ctx, warmLaps); err != nil {
		return alone, taken, err
	}
	if alone, err = t.laps(ctx, laps); err != nil {
		return alone, taken, err
	}
	taken, err = t.lap(ctx, records-records%producers, 1)
	return alone, taken, err
}

// warmLaps fill what a queue keeps: buffers, and segments to use again.
const warmLaps = 2

// laps is how many come to twice the records of a measurement: one lap alone is
// too short to trust.
func (l *lab) laps() int { return max(2, 2*l.records/lapRecords) }

// growing measures a queue that nobody reads: each segment is a new one.
func (l *lab) growing(ctx context.Context, values map[string]float64) error {
	dir, remove, err := l.scratch()
	if err != nil {
		return err
	}
	defer remove()
	t, err := openTrack(filepath.Join(dir, "queue"), 0)
	if err != nil {
		return err
	}
	if _, err = t.lap(ctx, lapRecords, 0); err != nil {
		return errors.Join(err, t.close(ctx))
	}
	p, err := t.lap(ctx, 2*l.records, 0)
	values["growing"] = p.rate()
	return errors.Join(err, t.close(ctx))
}

// manyCursors is a generous number of sinks.
const manyCursors = 8

// followers measures what readers cost the writer. Each kind of lap runs in turn,
// all of them on recycled segments.
func (l *lab) followers(ctx context.Context) (map[string]float64, error) {
	dir, remove, err := l.scratch()
	if err != nil {
		return nil, err
	}
	defer remove()
	one, err := openTrack(filepath.Join(dir, "one"), 1)
	if err != nil {
		return nil, err
	}
	many, err := openTrack(filepath.Join(dir, "many"), manyCursors)
	if err != nil {
		return nil, errors.Join(err, one.close(ctx))
	}
	values, err := compareFollowers(ctx, one, many, l.laps())
	return values, errors.Join(err, one.close(ctx), many.close(ctx))
}

func compareFollowers(ctx context.Context, one, many *track, laps int) (map[string]float64, error) {
	kinds := []struct {
		key       string
		on        *track
		following int
		total     pace
	}{
		{key: "none", on: one, following: 0},
		{key: "one", on: one, following: 1},
		{key: "idle", on: many, following: 0},
		{key: "all", on: many, following: manyCursors},
	}
	for _, t := range []*track{one, many} {
		if _, err := t.laps(ctx, warmLaps); err != nil {
			return nil, err
		}
	}
	for range laps {
		for i := range kinds {
			k := &kinds[i]
			p, err := k.on.lap(ctx, lapRecords, k.following)
			if err != nil {
				return nil, err
			}
			k.total.add(p)
		}
	}
	values := map[string]float64{}
	for _, k := range kinds {
		values[k.key] = k.total.rate()
	}
	return values, nil
}
