package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/docket-export/docket/bench/process"
	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/decision"
)

const (
	// burstCalls is how many calls are timed together. Two bursts fit into the
	// buffer of a client: one that is being made, and one that is being sent.
	burstCalls = 1000
	// turnBursts is how many bursts a program makes before it is the turn of the
	// next one.
	turnBursts = 10
	warmBursts = 3
	// offCalls is a burst of calls that do nothing.
	offCalls = 100 * burstCalls
)

// tryLog measures in a process of its own, whose memory nobody else has used.
func (l *lab) tryLog() values {
	s := l.start(l.scratch(), heldEntry())
	return process.Call[values](l.T, l.Self, tryLogCommand, tryLogLoad{s.socket, l.records})
}

// tryLogLoad is a process that logs about so many records.
type tryLogLoad struct {
	Socket  string
	Records int
}

func (o tryLogLoad) run(ctx context.Context) (values, error) {
	c, err := client.New(client.Config{Address: "unix://" + o.Socket})
	if err != nil {
		return nil, err
	}
	v, err := costs(ctx, c, o.Records)
	_, closeErr := c.Close(ctx)
	return v, errors.Join(err, closeErr, allStored(c.Stats()))
}

// allStored returns an error unless every record is on the exporter's disk: what
// is refused costs less.
func allStored(s client.Stats) error {
	if s.Logged != s.Stored || len(s.Lost) > 0 {
		return fmt.Errorf("of %d records %d were stored, %d refused and %v lost", s.Logged, s.Stored, s.Refused, s.Lost)
	}
	return nil
}

// costs measures what it costs to log about so many records with c, and in turns
// with it with a client that is off.
func costs(ctx context.Context, c *client.Client, records int) (values, error) {
	r := denial()
	on := &logged{calls: burstCalls, burst: tryLogger{c, r}.burst, rest: waitBehind(ctx, c), flush: c.Flush}
	off := &logged{calls: offCalls, burst: tryLogger{nil, r}.burst}
	for range max(1, records/burstCalls/turnBursts) {
		if err := errors.Join(on.turn(ctx), off.turn(ctx)); err != nil {
			return nil, err
		}
	}
	return values{"on": on.perCall(), "onAllocs": on.allocsPerCall(), "off": off.perCall(), "offAllocs": off.allocsPerCall()}, nil
}

// logged is a way to log, and what it has cost so far.
type logged struct {
	calls int // of one burst
	burst func(calls int) error
	rest  func() error                // after a burst; may be nil
	flush func(context.Context) error // after a turn; may be nil

	took    []time.Duration // of each burst
	mallocs uint64          // of all bursts, of the whole process
}

// turn makes some bursts, of which the first ones warm up: memory that waits to be
// used again has been collected during the turns of the others.
func (p *logged) turn(ctx context.Context) error {
	if err := p.bursts(warmBursts); err != nil {
		return err
	}
	p.took = p.took[:len(p.took)-warmBursts]
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := p.bursts(turnBursts); err != nil {
		return err
	}
	if p.flush != nil {
		if err := p.flush(ctx); err != nil {
			return err
		}
	}
	runtime.ReadMemStats(&after)
	p.mallocs += after.Mallocs - before.Mallocs
	return nil
}

func (p *logged) bursts(n int) error {
	for range n {
		began := time.Now()
		err := p.burst(p.calls)
		p.took = append(p.took, time.Since(began))
		if err == nil && p.rest != nil {
			err = p.rest()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// perCall is the nanoseconds of a call in the median burst.
func (p *logged) perCall() float64 {
	p50, _ := quantiles(p.took)
	return p50 * 1000 / float64(p.calls)
}

// allocsPerCall is how much is allocated for a call, by it or behind it, to a
// thousandth: a process allocates a little without any call.
func (p *logged) allocsPerCall() float64 {
	return math.Round(1000*float64(p.mallocs)/float64(p.calls*len(p.took))) / 1000
}

// tryLogger logs a record with a client, which is off when it is nil. Its burst is a
// method because a closure is compiled as a part of costs, a function so large
// that TryLog is not inlined into it.
type tryLogger struct {
	client *client.Client
	record *decision.Record
}

func (t tryLogger) burst(calls int) error {
	for range calls {
		if err := t.client.TryLog(t.record); err != nil {
			return err
		}
	}
	return nil
}

// waitBehind returns what waits, after each burst but the first, until the burst
// before it is stored: acks come in all the time, and no record is refused.
func waitBehind(ctx context.Context, c *client.Client) func() error {
	var before chan error
	return func() error {
		now := make(chan error, 1)
		go func() { now <- c.Flush(ctx) }()
		wait := before
		before = now
		if wait == nil {
			return nil
		}
		return <-wait
	}
}
