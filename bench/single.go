package main

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/docket-export/docket/bench/process"
	"github.com/docket-export/docket/bench/record"
	"github.com/docket-export/docket/client"
)

const (
	// singleRecords bounds the time on a slow disk: 1,000 syncs of 5 ms are 5 s.
	singleRecords  = 1000
	recordsPerTurn = 50
)

// waiter does something n times, one after another, and returns how long each
// took.
type waiter func(ctx context.Context, n int) ([]time.Duration, error)

// inTurns lets each program do it singleRecords times, a few at a time in turn, in
// the same weather: the time of a sync changes from second to second.
func inTurns(ctx context.Context, programs ...waiter) ([][]time.Duration, error) {
	waits := make([][]time.Duration, len(programs))
	for range singleRecords / recordsPerTurn {
		for i, program := range programs {
			took, err := program(ctx, recordsPerTurn)
			if err != nil {
				return nil, err
			}
			waits[i] = append(waits[i], took...)
		}
	}
	return waits, nil
}

// single measures the time to an ack with one record in flight, and of what it
// consists at least.
func (l *lab) single(ctx context.Context) (map[string]float64, error) {
	dir, remove, err := l.scratch()
	if err != nil {
		return nil, err
	}
	defer remove()
	raw, err := recycledFile(ctx, filepath.Join(dir, "raw"))
	if err != nil {
		return nil, err
	}
	defer raw.Close()
	answer := filepath.Join(l.Short, "answer.sock")
	server, err := process.Start(ctx, nil, l.Self, answerCommand, answer)
	if err != nil {
		return nil, err
	}
	defer server.Kill()
	s, err := l.startWarm(ctx, dir, heldBack)
	if err != nil {
		return nil, err
	}
	defer s.kill()
	if err := settle(ctx, filepath.Join(dir, "queue")); err != nil {
		return nil, err
	}
	plain := overwriter{file: raw, commit: commitOf(1), span: segmentBytes}
	return ackTimes(ctx, plain.writeEach, answer, s.socket)
}

// ackTimes measures a plain write, the way to a server that only answers and back,
// and the way to docket and back: of a bare producer, and of a client.
func ackTimes(ctx context.Context, plain waiter, answer, docket string) (map[string]float64, error) {
	trip, err := connect(answer, 0, record.NewBlock(0))
	if err != nil {
		return nil, err
	}
	defer trip.nc.Close()
	bare, err := connect(docket, 0, record.NewBlock(0))
	if err != nil {
		return nil, err
	}
	defer bare.nc.Close()
	c, err := client.New(client.Config{Address: "unix://" + docket})
	if err != nil {
		return nil, err
	}
	log := logEach(c)
	_, err = log(ctx, 1) // when it returns there is a connection
	var waits [][]time.Duration
	if err == nil {
		waits, err = inTurns(ctx, plain, trip.sendEach, bare.sendEach, log)
	}
	_, closeErr := c.Close(ctx)
	if err := errors.Join(err, closeErr); err != nil {
		return nil, err
	}
	values := map[string]float64{}
	for i, key := range []string{"raw", "trip", "ack", "log"} {
		values[key], values[key+"99"] = quantiles(waits[i])
	}
	values["floor"] = values["raw"] + values["trip"]
	return values, nil
}

// sendEach is a waiter that sends records one at a time.
func (p *producer) sendEach(_ context.Context, n int) ([]time.Duration, error) {
	return p.send(n, 1)
}

// logEach returns a waiter that logs one record after another.
func logEach(c *client.Client) waiter {
	r := denial()
	return func(ctx context.Context, n int) (waits []time.Duration, err error) {
		for range n {
			began := time.Now()
			if err := c.Log(ctx, r); err != nil {
				return nil, err
			}
			waits = append(waits, time.Since(began))
		}
		return waits, nil
	}
}

// writeEach is a waiter that writes one commit over another.
func (w *overwriter) writeEach(_ context.Context, n int) (waits []time.Duration, err error) {
	for range n {
		took, err := w.write()
		if err != nil {
			return nil, err
		}
		waits = append(waits, took)
	}
	return waits, nil
}
