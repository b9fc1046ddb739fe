package main

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/docket-export/docket/bench/process"
	"github.com/docket-export/docket/bench/record"
	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/decision"
)

const (
	clientCommand = "client"
	// clientTurns is how often the client and the bare producers take turns in one
	// measurement.
	clientTurns = 4
)

// The load of one client: together the callers fill three quarters of a buffer of
// the default size.
const (
	callers        = 16
	linesPerCaller = 384
)

// oneClient measures what one client can send, what it brings in to docket, and in
// turns with that the bare producers of ingest.
func (l *lab) oneClient(ctx context.Context) (map[string]float64, error) {
	dir, remove, err := l.scratch()
	if err != nil {
		return nil, err
	}
	defer remove()
	s, err := l.startWarm(ctx, dir, heldBack)
	if err != nil {
		return nil, err
	}
	defer s.kill()
	one := load{s.socket, callers, linesPerCaller, l.records / clientTurns}
	bare := load{s.socket, producers, linesInFlight, l.records / clientTurns}
	answer := filepath.Join(l.Short, "answer.sock")
	server, err := process.Start(ctx, nil, l.Self, answerCommand, answer)
	if err != nil {
		return nil, err
	}
	defer server.Kill()
	alone, err := l.load(ctx, clientCommand, load{answer, callers, linesPerCaller, l.records})
	if err != nil {
		return nil, err
	}
	var ofOne, ofBare produced
	for range clientTurns {
		if err := l.addLoad(ctx, &ofOne, clientCommand, one); err != nil {
			return nil, err
		}
		if err := l.addLoad(ctx, &ofBare, produceCommand, bare); err != nil {
			return nil, err
		}
	}
	return map[string]float64{
		"alone": alone.rate(), "rate": ofOne.rate(), "cpu": ofOne.cpuOfMillion(),
		"bare": ofBare.rate(), "bareCPU": ofBare.cpuOfMillion(),
	}, nil
}

// addLoad runs the load and adds what came of it to sum.
func (l *lab) addLoad(ctx context.Context, sum *produced, command string, o load) error {
	p, err := l.load(ctx, command, o)
	sum.Records += p.Records
	sum.Seconds += p.Seconds
	sum.CPU += p.CPU
	return err
}

func (p produced) rate() float64         { return float64(p.Records) / p.Seconds }
func (p produced) cpuOfMillion() float64 { return p.CPU / float64(p.Records) * 1e6 }

// runClient makes the load with one client: each caller logs window lines and
// waits for the ack of the last of them.
func (o load) runClient(ctx context.Context) (produced, error) {
	ctx, cancel := context.WithTimeout(ctx, produceWait)
	defer cancel()
	c, err := client.New(client.Config{Address: "unix://" + o.Socket})
	if err != nil {
		return produced{}, err
	}
	p, err := o.logAll(ctx, c)
	_, closeErr := c.Close(ctx)
	return p, errors.Join(err, closeErr, allStored(c.Stats()))
}

func (o load) logAll(ctx context.Context, c *client.Client) (produced, error) {
	all := make([]*caller, o.Producers)
	for i := range all {
		all[i] = &caller{client: c, block: record.NewBlock(i)}
	}
	if err := all[0].log(ctx, 1, 1); err != nil { // when it returns there is a connection
		return produced{}, err
	}
	share := o.Records / o.Producers
	p, err := timed(len(all), func(i int) error { return all[i].log(ctx, share, o.Window) })
	p.Records = share * len(all)
	return p, err
}

// caller is a goroutine that logs with a client.
type caller struct {
	client *client.Client
	block  *record.Block
	logged int
}

// log returns when so many more lines are stored. At most window of them wait for
// that at a time.
func (c *caller) log(ctx context.Context, lines, window int) error {
	for n := range lines {
		line := c.block.Next(c.logged, 1)
		line = line[:len(line)-1]
		c.logged++
		var err error
		if (n+1)%window == 0 || n+1 == lines {
			err = c.client.LogLine(ctx, line, decision.Deny)
		} else {
			err = c.client.TryLogLine(line, decision.Deny)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
