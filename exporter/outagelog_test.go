package exporter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/exporter/deadletter"
	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/internal/testlog"
	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sources"
)

// logged are the lines with a text.
func logged(log *testlog.Buffer, text string) int { return strings.Count(log.String(), text) }

// However a sink fails for a minute, in which it is tried often, a line is a change of state.
func TestOutageOfASinkInTheLog(t *testing.T) {
	var attempts int
	inOutage := func(err func(n int) error) func() error {
		return func() error {
			if attempts++; attempts <= 60 {
				return err(attempts)
			}
			return nil
		}
	}
	for name, test := range map[string]struct {
		send         func() error
		lines, bound int // at least and at most
	}{
		"refused":        {inOutage(func(int) error { return errNet }), 2, 2},
		"own port":       {inOutage(func(n int) error { return fmt.Errorf("read tcp 10.0.0.1:%d->10.0.0.2:443: reset", 40000+n) }), 2, 2},
		"three brokers":  {inOutage(func(n int) error { return fmt.Errorf("dial kafka-%d: refused", n%3) }), 4, 4},
		"id of requests": {inOutage(func(n int) error { return fmt.Errorf("503: request %d failed", n) }), 9, 10},
		"panics":         {inOutage(func(int) error { panic("index out of range") }), 3, 3}, // one has the stack
		"misconfigured":  {inOutage(func(int) error { return &sinks.Failure{Kind: sinks.Misconfigured, Err: errNet} }), 2, 2},
		"by turns": {func() error {
			if attempts++; attempts%2 == 1 {
				return errNet
			}
			return nil
		}, 16, 18},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				attempts = 0
				var log testlog.Buffer
				f := &funcSink{send: func(context.Context, sinks.Batch) error { return test.send() }}
				var batches [][]queue.Record
				for i := uint64(1); i <= 100; i++ {
					batches = append(batches, records(i, i))
				}
				c := &trickle{fakeCursor: fakeCursor{batches: batches}}
				d := newTestDelivery(t, SinkConfig{Config: f}, &c.fakeCursor, slog.New(slog.NewTextHandler(&log, nil)))
				d.cursor = c
				d.cfg.Retry = RetryConfig{InitialBackoff: config.Duration(100 * time.Millisecond), MaxBackoff: config.Duration(time.Second)}
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(2*time.Minute, cancel)
				d.run(ctx)
				if attempts < 60 {
					t.Fatalf("got %d attempts, want at least 60", attempts)
				}
				lines := strings.Count(log.String(), "\n")
				if lines < test.lines || lines > test.bound {
					t.Errorf("got %d lines of %d attempts, want %d to %d:\n%s", lines, attempts, test.lines, test.bound, log.String())
				}
				if well := logged(&log, "delivery works again"); well == 0 {
					t.Errorf("got no line that it works again:\n%s", log.String())
				}
			})
		})
	}
}

// oddSource is a source made of a function. It is its own configuration.
type oddSource struct {
	sources.Config
	run func(ctx context.Context, ready func()) error
}

func (s oddSource) New(sources.Env) sources.Source { return s }
func (oddSource) Connections() int                 { return 0 }
func (s oddSource) Run(ctx context.Context, _ sources.Intake, ready func()) error {
	return s.run(ctx, ready)
}

// A source that cannot start for a minute has two lines, and one that comes and goes some.
func TestOutageOfASourceInTheLog(t *testing.T) {
	for name, test := range map[string]struct {
		starts       func(n int, began time.Time) error // nil: it is ready, and ends by itself after a moment
		lines, bound int
	}{
		"cannot bind": {func(_ int, began time.Time) error {
			if time.Since(began) < time.Minute {
				return errors.New("address in use")
			}
			return nil
		}, 2, 2},
		"comes and goes": {func(int, time.Time) error { return errEnded }, 8, 20},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log testlog.Buffer
				n, began := 0, time.Now()
				s := oddSource{run: func(ctx context.Context, ready func()) error {
					n++
					err := test.starts(n, began)
					switch {
					case errors.Is(err, errEnded):
						ready()
						return err
					case err != nil:
						return err
					}
					ready()
					<-ctx.Done()
					return nil
				}}
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(2*time.Minute, cancel)
				newSourceRunner(SourceConfig{Name: "odd"}, s, nil, slog.New(slog.NewTextHandler(&log, nil))).run(ctx, nil)
				if lines := strings.Count(log.String(), "\n"); lines < test.lines || lines > test.bound {
					t.Errorf("got %d lines of %d starts, want %d to %d:\n%s", lines, n, test.lines, test.bound, log.String())
				}
				if logged(&log, "source takes lines") == 0 {
					t.Errorf("got no line that the source takes lines:\n%s", log.String())
				}
			})
		})
	}
}

// A queue that is full and has room by turns for a minute has two lines.
func TestFullQueueInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w fullWatch
		lines, now := 0, time.Now()
		for n := range 120 {
			began, ended := w.look(queue.Stats{Full: n < 60 && n%2 == 0}, now.Add(time.Duration(n)*time.Second))
			if began || ended {
				lines++
			}
		}
		if lines != 2 {
			t.Errorf("got %d lines, want 2", lines)
		}
	})
}

// Records that meet two errors by turns are no news each.
func TestRedactionErrorsInTheLog(t *testing.T) {
	var log testlog.Buffer
	r := &redaction{log: slog.New(slog.NewTextHandler(&log, nil))}
	for range 60 {
		r.failed(errors.New("key of rule 1 cannot be read"))
		r.failed(errors.New("key of rule 2 cannot be read"))
	}
	if lines := strings.Count(log.String(), "\n"); lines != 2 {
		t.Errorf("got %d lines, want 2:\n%s", lines, log.String())
	}
}

// Dead letters at the mark where they are told of come and go one by one.
func TestDeadLettersNearTheirBoundInTheLog(t *testing.T) {
	var log testlog.Buffer
	l := &letters{log: slog.New(slog.NewTextHandler(&log, nil))}
	for n := range 60 {
		l.tellOfBound(deadletter.Stats{Bytes: 800 - int64(n%2), MaxBytes: 1000})
	}
	l.tellOfBound(deadletter.Stats{Bytes: 100, MaxBytes: 1000})
	l.tellOfBound(deadletter.Stats{Bytes: 900, MaxBytes: 1000})
	if lines := strings.Count(log.String(), "\n"); lines != 2 {
		t.Errorf("got %d lines, want one for each time they come near:\n%s", lines, log.String())
	}
}
