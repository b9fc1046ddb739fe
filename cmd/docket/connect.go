package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/sinks"
)

// connectTimeout bounds the trial of one sink: longer than a slow name server
// takes, shorter than the patience of whoever waits for it.
const connectTimeout = 15 * time.Second

// connectSinks tries every sink of cfg, all at the same time, and says on w what
// came of it, in the order of the file. Its error is that some failed.
func connectSinks(ctx context.Context, w io.Writer, file string, cfg *exporter.Config) error {
	results := make([]string, len(cfg.Sinks))
	failures := make([]bool, len(cfg.Sinks))
	var trials sync.WaitGroup
	for i, s := range cfg.Sinks {
		trials.Go(func() {
			results[i], failures[i] = connect(ctx, s)
		})
	}
	trials.Wait()
	failedSinks := 0
	for i, s := range cfg.Sinks {
		fmt.Fprintf(w, "%s: sink %s: %s\n", file, s.Name, results[i])
		if failures[i] {
			failedSinks++
		}
	}
	if failedSinks > 0 {
		return failed(fmt.Errorf("docket: %s: sinks that could not be reached: %d of %d", file, failedSinks, len(cfg.Sinks)))
	}
	return nil
}

// connect tries one sink and returns what to say about it.
func connect(ctx context.Context, s exporter.SinkConfig) (result string, bad bool) {
	if s.Retire {
		return "to be retired: not tried", false
	}
	prober, ok := s.Config.(sinks.Prober)
	if !ok {
		return "nothing to try", false
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	began := time.Now()
	err := prober.Probe(ctx, sinks.Env{Name: s.Name, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return fmt.Sprintf("%s: %v", sinks.FailureOf(err).Kind, err), true
	}
	return fmt.Sprintf("ok (%s)", time.Since(began).Round(time.Millisecond)), false
}
