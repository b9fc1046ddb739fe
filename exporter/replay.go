package exporter

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/docket-export/docket/exporter/queue/inspect"
	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/sinks"
)

// CheckReplay returns an error for a sink that would not deliver replayed
// records.
func (s *SinkConfig) CheckReplay() error {
	if c, ok := s.Config.(sinks.Replayable); ok {
		if err := c.Replayable(); err != nil {
			return fmt.Errorf("sink %s %w", s.Name, err)
		}
	}
	return nil
}

// Replay sets a sink back while Run is running: its delivery ends, as for a reload, and
// continues with an earlier record. So no batch under way can move the position once it is
// set, and the sink starts again, as after a restart. With dryRun nothing is changed.
func (e *Exporter) Replay(ctx context.Context, sink string, from inspect.ReplayFrom, dryRun bool) (inspect.Replay, error) {
	d, err := e.replayable(sink)
	if err != nil {
		return inspect.Replay{}, err
	}
	// What cannot be is refused before anything ends.
	r, err := e.planLive(ctx, d, from)
	if err != nil || dryRun {
		return r, err
	}
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-e.stopping:
		return r, ErrStopping
	case <-ctx.Done():
		return r, context.Cause(ctx)
	}
	if d, err = e.replayable(sink); err != nil {
		return r, err
	}
	if !e.endSink(d, batchWait) {
		e.outflow.start(func(ctx context.Context) { e.startAgain(ctx, d) })
		return r, notEnded(sink)
	}
	if isClosed(e.stopping) {
		return r, ErrStopping // what has ended stays so
	}
	// A sink that ends may note what it has.
	if err = d.cfg.CheckReplay(); err == nil {
		r, err = e.setBack(context.WithoutCancel(ctx), d, inspect.ReplayFrom{Seq: r.Records.From})
	}
	return r, errors.Join(err, e.restartSink(d))
}

// replayable returns the delivery of a sink that can be set back.
func (e *Exporter) replayable(sink string) (*delivery, error) {
	d := e.parts().delivery(sink)
	if d == nil {
		return nil, &requestError{http.StatusNotFound, e.noSuchSink(sink)}
	}
	if d.through.Load() > 0 {
		return nil, fmt.Errorf("sink %s was removed from the configuration: add it again to replay records", sink)
	}
	return d, d.cfg.CheckReplay()
}

// planLive plans with the letters of d, which runs or has ended.
func (e *Exporter) planLive(ctx context.Context, d *delivery, from inspect.ReplayFrom) (r inspect.Replay, err error) {
	o, err := e.look()
	if err != nil {
		return r, err
	}
	return o.Plan(ctx, d.cfg.Name, from, func(r segment.SeqRange) uint64 { return d.letters.count(r.From, r.To) })
}

// setBack sets back a sink whose delivery has ended.
func (e *Exporter) setBack(ctx context.Context, d *delivery, from inspect.ReplayFrom) (inspect.Replay, error) {
	ctx, cancel := context.WithTimeout(ctx, accountTimeout)
	defer cancel()
	r, err := e.planLive(ctx, d, from)
	if err == nil {
		err = e.queue.SetBack(ctx, d.cfg.Name, r.Before, r.After)
	}
	if err == nil {
		e.log.Info("replay requested: the sink is set back", "sink", d.cfg.Name, "firstSeq", r.Records.From, "records", r.Count())
	}
	return r, err
}

// startAgain has a sink go on that did not end in time, once it has, unless a reload comes before.
func (e *Exporter) startAgain(ctx context.Context, d *delivery) {
	select {
	case <-d.loop.ended:
	case <-ctx.Done():
		return
	}
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return
	}
	if isClosed(e.stopping) || !slices.Contains(e.parts().deliveries, d) || !e.endSink(d, 0) {
		return
	}
	if err := e.restartSink(d); err != nil {
		d.log.Error("the sink has ended after a replay that was given up, and does not start: restart docket", "error", err)
	}
}

// restartSink starts a new delivery in the place of old, which has ended. Callers hold turn.
func (e *Exporter) restartSink(old *delivery) error {
	before := e.parts()
	d, err := e.successor(before.cfg, old)
	if err != nil {
		return err
	}
	next := *before
	next.deliveries = slices.Clone(before.deliveries)
	next.deliveries[slices.Index(next.deliveries, old)] = d
	e.now.Store(&next)
	e.start(&next)
	return nil
}
