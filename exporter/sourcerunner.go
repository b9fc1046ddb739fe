package exporter

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/docket-export/docket/internal/outage"
	"github.com/docket-export/docket/sources"
)

// sourceRunner keeps one source running: a source that cannot start is retried,
// because what is in its way (a socket of a process that is just ending, a
// directory not mounted yet) goes away.
type sourceRunner struct {
	cfg       SourceConfig
	source    sources.Source
	redaction *redaction // nil: its records are stored as they come
	loop      *loop      // serves the source; nil before it is started
	after     []*loop    // of sources that had its name before, and its files; set before it is started
	log       *slog.Logger
	said      outage.Log
	ran       bool // it was said that the source takes lines; owned by run

	mu     sync.Mutex
	state  State  // guarded by mu
	reason string // guarded by mu
}

func newSourceRunner(cfg SourceConfig, s sources.Source, r *redaction, log *slog.Logger) *sourceRunner {
	return &sourceRunner{cfg: cfg, source: s, redaction: r, log: log, state: Degraded, reason: "starting"}
}

var errEnded = errors.New("source ended by itself")

func (r *sourceRunner) run(ctx context.Context, in *ingest) {
	pause := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(100*time.Millisecond),
		backoff.WithMaxInterval(5*time.Second),
		backoff.WithMaxElapsedTime(0))
	for _, before := range r.after {
		select {
		case <-before.ended:
		case <-ctx.Done():
			return
		}
	}
	for {
		err := r.source.Run(ctx, intake{in, r.redaction}, func() {
			pause.Reset()
			r.set(Active, "")
			if _, again := r.said.Works(); again || !r.ran {
				r.log.Info("source takes lines")
			}
			r.ran = true
		})
		if ctx.Err() != nil {
			if err != nil {
				r.log.Warn("source did not stop cleanly", "error", err)
			}
			return
		}
		if err == nil {
			err = errEnded
		}
		r.set(Error, err.Error())
		if r.said.Fails(err.Error()) {
			r.log.Error("source cannot start; docket tries again", "error", err)
		}
		select {
		case <-time.After(pause.NextBackOff()):
		case <-ctx.Done():
			return
		}
	}
}

func (r *sourceRunner) set(state State, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state, r.reason = state, reason
}

// unbound says why producers cannot connect, and is empty when they can. To a source
// that only reads files nobody connects.
func (r *sourceRunner) unbound() (reason string) {
	l, ok := r.source.(sources.Listener)
	if !ok || l.Addr() != nil {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == Active { // it has just ended, or is about to say that it takes lines
		return "not listening"
	}
	return r.reason
}

func (r *sourceRunner) snapshot() SourceStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := SourceStatus{Name: r.cfg.Name, State: r.state, Reason: r.reason, Connections: r.source.Connections()}
	if l, ok := r.source.(sources.Listener); ok {
		if addr := l.Addr(); addr != nil {
			s.Address = addr.String()
		}
	}
	if reporter, ok := r.source.(sources.Reporter); ok {
		report := reporter.Report()
		s.Lost, s.LastRun, s.audits = report.Lost, report.Audits.Last, report.Audits
		if s.State == Active && report.Trouble != "" {
			s.State, s.Reason = Degraded, report.Trouble
		}
	}
	return s
}
