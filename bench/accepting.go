package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/docket-export/docket/bench/trial"
	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/sinks"
)

// acceptingPasses are how often each number of sinks gets the backlog, in turn:
// one pass takes less than a second.
const acceptingPasses = 3

// accepting measures what an exporter in this process delivers to sinks that accept
// everything.
func (l *lab) accepting() values {
	dir, records := l.backlogOf(4 * l.records)
	queueDir := filepath.Join(dir, "queue")
	sums := stints{}
	for pass := range acceptingPasses {
		for key, count := range map[string]int{"one": 1, "many": manySinks} {
			sums.add(key, accept(l.T, queueDir, fmt.Sprint(key, "-", pass), count, records))
		}
	}
	one, many := sums["one"], sums["many"]
	return values{"rate": one.rate(), "cpu": one.cpuOfMillion(), "many": many.rate(), "manyCPU": many.cpuOfMillion()}
}

// accept runs an exporter until each of its sinks has the backlog. Their names begin
// with name and are new to the queue.
func accept(t *trial.T, queueDir, name string, count, records int) stint {
	runtime.GC() // what an earlier program has left must not be collected in this one's time
	crowd := newAcceptors(count, records)
	cpu := ownCPU()
	e := trial.Must(exporter.New(acceptingConfig(queueDir, name, crowd), exporter.Options{Log: slog.New(slog.DiscardHandler)}))
	running, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- e.Run(running) }()
	var err error
	select {
	case <-crowd.done:
	case <-t.Context().Done():
		err = fmt.Errorf("waiting for %d sinks to accept: %w", count, t.Context().Err())
	}
	stop()
	trial.Check(errors.Join(err, <-ended))
	return stint{Records: count * records, Took: crowd.last.Sub(crowd.first), CPU: ownCPU() - cpu}
}

// acceptingConfig is what `docket run` would make of a file with such sinks and no
// options.
func acceptingConfig(queueDir, name string, crowd *acceptors) *exporter.Config {
	cfg := &exporter.Config{
		Queue:    exporter.QueueConfig{Directory: queueDir, MaxBytes: 2 << 30, WhenFull: exporter.Block, MinFreeBytes: exporter.Auto},
		Shutdown: exporter.ShutdownConfig{DrainTimeout: config.Duration(time.Second)},
		Limits:   exporter.LimitsConfig{MaxRecordBytes: 1 << 20},
	}
	for i := range crowd.members {
		cfg.Sinks = append(cfg.Sinks, exporter.SinkConfig{
			Name: fmt.Sprint(name, "-", i), Kind: "accepting", Batch: sinks.DefaultBatch(),
			Retry:    exporter.RetryConfig{InitialBackoff: config.Duration(500 * time.Millisecond), MaxBackoff: config.Duration(time.Minute)},
			OnReject: exporter.DeadLetter, DeadLetters: exporter.DeadLettersConfig{MaxBytes: 256 << 20},
			From: exporter.Oldest, Config: &crowd.members[i],
		})
	}
	return cfg
}

// acceptors are sinks that accept everything and do nothing with it.
type acceptors struct {
	members []acceptor
	done    chan struct{} // closed when each has all records

	mu          sync.Mutex
	missing     int       // how many have not; guarded by mu
	first, last time.Time // of the first Send to any, and of the last; guarded by mu until done is closed
}

func newAcceptors(count, records int) *acceptors {
	a := &acceptors{members: make([]acceptor, count), done: make(chan struct{}), missing: count}
	for i := range a.members {
		a.members[i] = acceptor{crowd: a, missing: records, first: true}
	}
	return a
}

// acceptor is one of them, and its own configuration.
type acceptor struct {
	crowd   *acceptors
	missing int  // records; owned by Send
	first   bool // nothing has been sent; owned by Send
}

func (a *acceptor) Validate() config.Problems                           { return nil }
func (a *acceptor) Open(context.Context, sinks.Env) (sinks.Sink, error) { return a, nil }
func (a *acceptor) Close(context.Context) error                         { return nil }

func (a *acceptor) Send(_ context.Context, b sinks.Batch) error {
	if a.first {
		a.first = false
		a.crowd.began()
	}
	if a.missing -= len(b.Items); a.missing == 0 {
		a.crowd.ended()
	}
	return nil
}

func (c *acceptors) began() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.first.IsZero() {
		c.first = time.Now()
	}
}

func (c *acceptors) ended() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = time.Now()
	if c.missing--; c.missing == 0 {
		close(c.done)
	}
}
