package exporter

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sources"
)

// stuckSink takes everything and hangs in Close. It is its own configuration.
type stuckSink struct{ sinks.Config }

func (stuckSink) Open(context.Context, sinks.Env) (sinks.Sink, error) { return stuckSink{}, nil }
func (stuckSink) Send(context.Context, sinks.Batch) error             { return nil }
func (stuckSink) Close(ctx context.Context) error                     { <-ctx.Done(); return ctx.Err() }

// socketless returns a directory for a queue whose path is too long for the admin
// socket. An exporter without a listener runs in a bubble of synctest: what it bounds in
// time then waits for a slow disk, and for nothing that is stuck.
func socketless(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), strings.Repeat("x", maxSocketPath))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// hangingSink hangs in Close whatever ctx says, as a file on a disk that hangs does.
type hangingSink struct {
	stuckSink
	release chan struct{}
}

func (s hangingSink) Open(context.Context, sinks.Env) (sinks.Sink, error) { return s, nil }
func (s hangingSink) Close(context.Context) error                         { <-s.release; return nil }

// holding returns an exporter that holds lines, and logs to log.
func holding(t *testing.T, cfg *Config, log io.Writer, lines string) *Exporter {
	t.Helper()
	e, err := New(cfg, Options{Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	s, _, err := intake{ingest: e.ingest}.Open(t.Context(), sources.Opening{Source: "test"})
	if err != nil {
		t.Fatal(err)
	}
	submit(t, s, lines)
	s.Close()
	return e
}

// However many sinks hang, the stop is bounded, and says of each how much is left.
func TestStopIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hanging := hangingSink{release: make(chan struct{})}
		defer close(hanging.release)
		cfg := &Config{
			Queue:    QueueConfig{Directory: socketless(t), MaxBytes: 16 << 20, WhenFull: Block},
			Limits:   defaultLimits(),
			Shutdown: defaultShutdown(),
		}
		for _, name := range []string{"a", "b", "c", "d"} {
			cfg.Sinks = append(cfg.Sinks, SinkConfig{
				Name: name, Batch: sinks.BatchLimits{MaxRecords: 10, MaxBytes: 1000}, Retry: defaultRetry(), From: Oldest, Config: hanging,
			})
		}
		var log bytes.Buffer
		e := holding(t, cfg, &log, "{}\n")
		ctx, stop := context.WithCancel(t.Context())
		stop()
		began := time.Now()
		err := e.Run(ctx)
		if took, most := time.Since(began), 2*closeTimeout; took > most { // there is nothing to drain
			t.Errorf("the stop took %s, want at most %s", took, most)
		}
		for _, sink := range cfg.Sinks {
			if want := "close sink " + sink.Name + ": not done"; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Run: got %v, want %q in it", err, want)
			}
			if want := "msg=stopped sink=" + sink.Name + " delivered=1 left=0"; !strings.Contains(log.String(), want) {
				t.Errorf("the log has no %q:\n%s", want, log.String())
			}
		}
	})
}

// busySource always has a producer. It is its own configuration.
type busySource struct {
	sources.Config
	stopped chan time.Time
}

func (s busySource) New(sources.Env) sources.Source { return s }
func (busySource) Connections() int                 { return 1 }
func (s busySource) Run(ctx context.Context, _ sources.Intake, ready func()) error {
	ready()
	<-ctx.Done()
	s.stopped <- time.Now()
	return nil
}

func TestStuckSinkDoesNotKeepTheQueueFromClosing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := socketless(t)
		e := holding(t, &Config{
			Queue:    QueueConfig{Directory: dir, MaxBytes: 16 << 20, WhenFull: Block},
			Limits:   defaultLimits(),
			Shutdown: ShutdownConfig{DrainTimeout: config.Duration(time.Minute)},
			Sinks:    []SinkConfig{{Name: "stuck", Batch: sinks.BatchLimits{MaxRecords: 10, MaxBytes: 1000}, Retry: defaultRetry(), From: Oldest, Config: stuckSink{}}},
		}, io.Discard, "{}\n{}\n")
		ctx, stop := context.WithCancel(t.Context())
		stop() // what is queued is delivered all the same
		if err := e.Run(ctx); err == nil {
			t.Error("Run does not say that the sink was stuck")
		}
		q, err := queue.Open(queue.Options{Directory: dir})
		if err != nil {
			t.Fatalf("the queue was not closed: %v", err)
		}
		if got := q.Stats().Cursors["stuck"]; got.Delivered != 2 {
			t.Errorf("account after the stop: got %+v, want 2 delivered", got)
		}
		if err := q.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// stuckSource never stops: it waits for a disk that hangs. It is its own
// configuration.
type stuckSource struct {
	sources.Config
	release chan struct{}
}

func (s stuckSource) New(sources.Env) sources.Source { return s }
func (stuckSource) Connections() int                 { return 0 }
func (s stuckSource) Run(_ context.Context, _ sources.Intake, ready func()) error {
	ready()
	<-s.release
	return nil
}

func TestStuckSourceDoesNotKeepTheQueueFromClosing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := socketless(t)
		source := stuckSource{release: make(chan struct{})}
		defer close(source.release)
		e, err := New(&Config{
			Queue:    QueueConfig{Directory: dir, MaxBytes: 16 << 20, WhenFull: Block},
			Limits:   defaultLimits(),
			Shutdown: ShutdownConfig{DrainTimeout: config.Duration(time.Second)},
			Sources:  []SourceConfig{{Name: "stuck", Config: source}},
		}, Options{Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if err := e.Run(ctx); err == nil || !strings.Contains(err.Error(), "stop sources: not done") {
			t.Errorf("Run: got %v, want that the source was stuck", err)
		}
		q, err := queue.Open(queue.Options{Directory: dir})
		if err != nil {
			t.Fatalf("the queue was not closed: %v", err)
		}
		if err := q.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
