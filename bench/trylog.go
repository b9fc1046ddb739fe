package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"runtime"
	"time"

	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/decision"
)

const (
	tryLogCommand = "trylog"
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
func (l *lab) tryLog(ctx context.Context) (map[string]float64, error) {
	dir, remove, err := l.scratch()
	if err != nil {
		return nil, err
	}
	defer remove()
	s, err := l.startSidecar(ctx, dir, heldBack)
	if err != nil {
		return nil, err
	}
	defer s.kill()
	out, err := l.run(ctx, tryLogCommand, "-socket", s.socket, "-records", fmt.Sprint(l.records))
	if err != nil {
		return nil, err
	}
	var values map[string]float64
	return values, json.Unmarshal(out, &values)
}

// tryLogMain is the process that logs.
func tryLogMain(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet(tryLogCommand, flag.ContinueOnError)
	socket := flags.String("socket", "", "")
	records := flags.Int("records", 0, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	c, err := client.New(client.Config{Address: "unix://" + *socket})
	if err != nil {
		return err
	}
	values, err := costs(ctx, c, *records)
	_, closeErr := c.Close(ctx)
	if err := errors.Join(err, closeErr, allStored(c.Stats())); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(values)
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
// with it what it consists of.
func costs(ctx context.Context, c *client.Client, records int) (map[string]float64, error) {
	r := denial()
	on := &logged{key: "on", calls: burstCalls, burst: tryLogger{c, r}.burst, flush: c.Flush}
	beside := &logged{key: "copy", calls: burstCalls, burst: copyBurst(r)}
	wait := waitBehind(ctx, c)
	on.rest = func() error { return errors.Join(beside.bursts(1), wait()) }
	programs := []*logged{
		on,
		{key: "off", calls: offCalls, burst: tryLogger{nil, r}.burst},
		{key: "encode", calls: burstCalls, burst: encodeBurst(r)},
	}
	for range max(1, records/burstCalls/turnBursts) {
		for _, p := range programs {
			if err := p.turn(ctx); err != nil {
				return nil, fmt.Errorf("%s: %w", p.key, err)
			}
		}
	}
	values := map[string]float64{"onMean": on.meanPerCall(), "copy": beside.perCall()}
	for _, p := range programs {
		values[p.key], values[p.key+"Allocs"] = p.perCall(), p.allocsPerCall()
	}
	return values, nil
}

// logged is a way to log, and what it has cost so far.
type logged struct {
	key   string
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

// meanPerCall is the nanoseconds of a call, those in which the processors were
// elsewhere included.
func (p *logged) meanPerCall() float64 {
	var total time.Duration
	for _, took := range p.took {
		total += took
	}
	return float64(total.Nanoseconds()) / float64(p.calls*len(p.took))
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

// copyBurst does that part of TryLog which takes the record.
func copyBurst(r *decision.Record) func(int) error {
	var c decision.Copy
	return func(calls int) error {
		for range calls {
			if err := c.Set(r); err != nil {
				return err
			}
			c.Forget()
		}
		return nil
	}
}

// encodeBurst does what TryLog leaves to another goroutine.
func encodeBurst(r *decision.Record) func(int) error {
	var line []byte
	return func(calls int) (err error) {
		for range calls {
			if line, err = r.AppendLine(line[:0]); err != nil {
				return err
			}
		}
		return nil
	}
}
