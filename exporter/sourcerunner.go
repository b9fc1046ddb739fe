package exporter

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/docket-export/docket/internal/disk"
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
	ran       bool // it was said that the source takes lines; owned by run, and by watch meanwhile

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
		err := r.serve(ctx, in, pause.Reset)
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

// serve runs the source until it ends, and watches the names that it depends on. ready is
// called once producers can connect.
func (r *sourceRunner) serve(ctx context.Context, in *ingest, ready func()) error {
	var watching sync.WaitGroup
	defer watching.Wait()
	watched, end := context.WithCancel(ctx)
	defer end()
	return r.source.Run(ctx, intake{in, r.redaction}, func() {
		ready()
		r.works()
		if s, ok := r.source.(sources.Standing); ok {
			watching.Go(func() { r.watch(watched, s) })
		}
	})
}

// works says that the source takes lines.
func (r *sourceRunner) works() {
	r.set(Active, "")
	if _, again := r.said.Works(); again || !r.ran {
		r.log.Info("source takes lines")
	}
	r.ran = true
}

// watch looks at the names that the source depends on, as the queue looks at its directory.
func (r *sourceRunner) watch(ctx context.Context, s sources.Standing) {
	look := time.NewTicker(disk.LookEvery)
	defer look.Stop()
	for {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
		err := s.Stand(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			r.works()
			continue
		}
		r.set(Error, err.Error())
		if r.said.Fails(err.Error()) {
			r.log.Error("source has lost a file that it depends on; docket tries again", "error", err)
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
	if !ok {
		return ""
	}
	listens := l.Addr() != nil
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == Active && !listens { // it has just ended, or its socket is about to be made again
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
		s.Lost, s.LostLines, s.LostBytes = report.Lost, report.LostLines, report.LostBytes
		s.PassedOver, s.LastRun, s.audits = report.PassedOver, report.Audits.Last, report.Audits
		if s.State == Active && report.Trouble != "" {
			s.State, s.Reason = Degraded, report.Trouble
		}
	}
	return s
}
