package configcmd

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/sinks"
)

// connectTimeout bounds the trial of one sink: longer than a slow name server
// takes, shorter than a person waits.
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
		return command.Failed(fmt.Errorf("%s: sinks that could not be reached: %d of %d", file, failedSinks, len(cfg.Sinks)))
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
	var warnings lockedBuffer
	log := slog.New(slog.NewTextHandler(&warnings, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: withoutHead}))
	began := time.Now()
	err := prober.Probe(ctx, sinks.Env{Name: s.Name, Log: log})
	if err != nil {
		return fmt.Sprintf("%s: %v", sinks.FailureOf(err).Kind, err), true
	}
	result = fmt.Sprintf("ok (%s)", time.Since(began).Round(time.Millisecond))
	for line := range strings.Lines(warnings.String()) {
		result += "\n  warning: " + strings.TrimSuffix(line, "\n")
	}
	return result, false
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
