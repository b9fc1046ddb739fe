package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
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
	done := make(chan *acceptor, count)
	cpu := ownCPU()
	e := trial.Must(exporter.New(acceptingConfig(queueDir, name, count, records, done), exporter.Options{Log: slog.New(slog.DiscardHandler)}))
	running, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(running) }()
	var first, last time.Time
	for range count {
		select {
		case a := <-done:
			if first.IsZero() || a.first.Before(first) {
				first = a.first
			}
			last = a.last
		case <-t.Context().Done():
		}
	}
	stop()
	trial.Check(errors.Join(t.Context().Err(), <-ended))
	return stint{Records: count * records, Took: last.Sub(first), CPU: ownCPU() - cpu}
}

// acceptingConfig is what `docket run` would make of a file with such sinks and no
// options.
func acceptingConfig(queueDir, name string, count, records int, done chan<- *acceptor) *exporter.Config {
	cfg := &exporter.Config{
		Queue:    exporter.QueueConfig{Directory: queueDir, MaxBytes: 2 << 30, WhenFull: exporter.Block, MinFreeBytes: exporter.Auto},
		Shutdown: exporter.ShutdownConfig{DrainTimeout: config.Duration(time.Second)},
		Limits:   exporter.LimitsConfig{MaxRecordBytes: 1 << 20},
	}
	for i := range count {
		cfg.Sinks = append(cfg.Sinks, exporter.SinkConfig{
			Name: fmt.Sprint(name, "-", i), Kind: "accepting", Batch: sinks.DefaultBatch(),
			Retry:    exporter.RetryConfig{InitialBackoff: config.Duration(500 * time.Millisecond), MaxBackoff: config.Duration(time.Minute)},
			OnReject: exporter.DeadLetter, DeadLetters: exporter.DeadLettersConfig{MaxBytes: 256 << 20},
			From: exporter.Oldest, Config: &acceptor{missing: records, done: done},
		})
	}
	return cfg
}

// acceptor is a sink that accepts everything and does nothing with it, and its own
// configuration.
type acceptor struct {
	missing     int              // records; owned by Send
	first, last time.Time        // of the first Send and of the last; owned by Send until it is done
	done        chan<- *acceptor // gets the acceptor when it has all records
}

func (a *acceptor) Validate() config.Problems                           { return nil }
func (a *acceptor) Open(context.Context, sinks.Env) (sinks.Sink, error) { return a, nil }
func (a *acceptor) Close(context.Context) error                         { return nil }

func (a *acceptor) Send(_ context.Context, b sinks.Batch) error {
	if a.first.IsZero() {
		a.first = time.Now()
	}
	if a.missing -= len(b.Items); a.missing == 0 {
		a.last = time.Now()
		a.done <- a
	}
	return nil
}
