package configcmd

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/sinks"
)

// connectTimeout bounds the trial of one sink: longer than a slow name server
// takes, shorter than a person waits.
const connectTimeout = 15 * time.Second

// connectSinks tries every sink of cfg, all at the same time, and returns what came of
// it, in the order of the file.
func connectSinks(ctx context.Context, cfg *exporter.Config) []sinkTrial {
	results := make([]sinkTrial, len(cfg.Sinks))
	var trials sync.WaitGroup
	for i, s := range cfg.Sinks {
		trials.Go(func() { results[i] = connect(ctx, s) })
	}
	trials.Wait()
	return results
}

// connect tries one sink and returns what to say about it.
func connect(ctx context.Context, s exporter.SinkConfig) sinkTrial {
	t := sinkTrial{Name: s.Name, State: notTried}
	prober, ok := s.Config.(sinks.Prober)
	switch {
	case s.Retire:
		t.Text = "not tested: retire is true"
		return t
	case !ok:
		t.Text = "nothing to test"
		return t
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	var warnings lockedBuffer
	log := slog.New(slog.NewTextHandler(&warnings, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: withoutHead}))
	began := time.Now()
	if err := prober.Probe(ctx, sinks.Env{Name: s.Name, Log: log}); err != nil {
		t.State, t.Text = failed, fmt.Sprintf("%s: %v", sinks.FailureOf(err).Kind, err)
		return t
	}
	t.State, t.Text = reached, fmt.Sprintf("ok (%s)", time.Since(began).Round(time.Millisecond))
	for line := range strings.Lines(warnings.String()) {
		t.Warnings = append(t.Warnings, strings.TrimSuffix(line, "\n"))
	}
	return t
}

// withoutHead leaves of a log line what a person needs who has just asked for it.
func withoutHead(_ []string, a slog.Attr) slog.Attr {
	switch a.Key {
	case slog.TimeKey, slog.LevelKey:
		return slog.Attr{}
	}
	return a
}

// lockedBuffer is written by a sink that may go on in the background.
type lockedBuffer struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
