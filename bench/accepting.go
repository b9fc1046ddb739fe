package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/docket-export/docket/bench/host"
	"github.com/docket-export/docket/bench/record"
	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/sinks"
)

const (
	// manySinks is a generous number of them.
	manySinks = 8
	// acceptingPasses are how often each program goes through the backlog, in turn:
	// one pass takes less than a second.
	acceptingPasses = 3
)

// accepting measures what an exporter in this process delivers to sinks that accept
// everything, and what a bare cursor takes.
func (l *lab) accepting(ctx context.Context) (map[string]float64, error) {
	dir, records, remove, err := l.backlogOf(ctx, 4*l.records)
	if err != nil {
		return nil, err
	}
	defer remove()
	queueDir := filepath.Join(dir, "queue")
	var one, many acceptance
	var taken transfer
	for pass := range acceptingPasses {
		t, err := readQueue(ctx, queueDir, false)
		if err != nil {
			return nil, err
		}
		taken.bytes += t.bytes
		taken.took += t.took
		if err := one.add(ctx, queueDir, fmt.Sprint("one-", pass), 1, records); err != nil {
			return nil, err
		}
		if err := many.add(ctx, queueDir, fmt.Sprint("many-", pass), manySinks, records); err != nil {
			return nil, err
		}
	}
	return map[string]float64{
		"rate": one.rate(), "cpu": one.cpuOfMillion(), "many": many.rate(), "manyCPU": many.cpuOfMillion(),
		"taken": float64(taken.bytes/record.Bytes) / taken.took.Seconds(),
	}, nil
}

// acceptance is what sinks have accepted, all together.
type acceptance struct {
	records int
	took    time.Duration
	cpu     time.Duration
}

func (a acceptance) rate() float64         { return float64(a.records) / a.took.Seconds() }
func (a acceptance) cpuOfMillion() float64 { return a.cpu.Seconds() / float64(a.records) * 1e6 }

// add runs an exporter until each of its sinks has the backlog. Their names begin
// with name and are new to the queue.
func (a *acceptance) add(ctx context.Context, queueDir, name string, count, records int) error {
	runtime.GC() // what an earlier program has left must not be collected in this one's time
	crowd := newAcceptors(count, records)
	cpu, err := host.CPUTime(os.Getpid())
	if err != nil {
		return err
	}
	e, err := exporter.New(acceptingConfig(queueDir, name, crowd), exporter.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	err = runUntil(ctx, e, func(ctx context.Context) error {
		select {
		case <-crowd.done:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("waiting for %d sinks to accept: %w", count, ctx.Err())
		}
	})
	if err != nil {
		return err
	}
	cpuAfter, err := host.CPUTime(os.Getpid())
	a.records += count * records
	a.took += crowd.last.Sub(crowd.first)
	a.cpu += cpuAfter - cpu
	return err
}

// runUntil runs e until wait returns.
func runUntil(ctx context.Context, e *exporter.Exporter, wait func(context.Context) error) error {
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- e.Run(running) }()
	err := wait(ctx)
	stop()
	return errors.Join(err, <-ended)
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
