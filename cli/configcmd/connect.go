package configcmd

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/docket-export/docket/cli/internal/terminal"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/sinks"
)

// connectTimeout bounds the trial of one sink: longer than a slow name server
// takes, shorter than a person waits.
const connectTimeout = 15 * time.Second

// connectSinks tries every sink of cfg, all at the same time, and returns what came of
// it, in the order of the file. The console shows which are still being tried.
func connectSinks(ctx context.Context, console *terminal.Console, cfg *exporter.Config) []sinkTrial {
	results := make([]sinkTrial, len(cfg.Sinks))
	waiting := &waitingSinks{names: make(map[string]bool)}
	for _, s := range cfg.Sinks {
		waiting.names[s.Name] = true
	}
	defer console.Follow(func() terminal.Work { return waiting.work(len(results)) })()
	var trials sync.WaitGroup
	for i, s := range cfg.Sinks {
		trials.Go(func() {
			results[i] = connect(ctx, s)
			waiting.done(s.Name)
		})
	}
	trials.Wait()
	return results
}

// waitingSinks are those that have not answered yet.
type waitingSinks struct {
	mu    sync.Mutex
	names map[string]bool // guarded by mu
}

func (w *waitingSinks) done(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.names, name)
}

func (w *waitingSinks) work(all int) terminal.Work {
	w.mu.Lock()
	defer w.mu.Unlock()
	names := strings.Join(slices.Sorted(maps.Keys(w.names)), ", ")
	return terminal.Work{What: "testing the sinks", Done: int64(all - len(w.names)), Total: int64(all), Noun: "sink", Note: "waiting for " + names}
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
