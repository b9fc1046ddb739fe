package exporter

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/docket-export/docket/exporter/queue/inspect"
)

// ReplayRequest is the body of POST /sinks/{sink}/replay.
type ReplayRequest struct {
	inspect.ReplayFrom
	DryRun bool `json:"dryRun,omitempty"` // nothing is changed
}

// RetryAnswer answers POST /sinks/{sink}/retry.
type RetryAnswer struct {
	// Waited says that the sink was waiting for its next attempt, and made it at
	// once.
	Waited bool `json:"waited"`
	// Sink is the status of the sink now: after the attempt, if the attempt has
	// ended.
	Sink SinkStatus `json:"sink"`
}

// retryTimeout bounds how long a retry waits for what comes of the attempt.
const retryTimeout = 10 * time.Second

// handleSinks adds the requests about one sink.
func (e *Exporter) handleSinks(mux *http.ServeMux, private bool) {
	e.handlePrivate(mux, private, "POST /sinks/{sink}/retry", e.retry)
	e.handlePrivate(mux, private, "POST /sinks/{sink}/replay", e.replay)
}

// retry has a sink attempt now what it would attempt later.
func (e *Exporter) retry(w http.ResponseWriter, r *http.Request) error {
	var nothing struct{}
	if err := readBody(w, r, &nothing, "{}"); err != nil {
		return err
	}
	d := e.parts().delivery(r.PathValue("sink"))
	if d == nil {
		return &requestError{http.StatusNotFound, e.noSuchSink(r.PathValue("sink"))}
	}
	a := RetryAnswer{Waited: d.snapshot().NextAttempt != nil}
	if a.Waited {
		e.log.Info("retry on request", "sink", d.cfg.Name)
		began := time.Now()
		d.tryNow()
		d.awaitAttempt(r.Context(), began)
	}
	a.Sink = d.snapshot()
	return e.answer(w, a)
}

// tryNow ends the pauses before the next attempt at a batch and at letters.
func (d *delivery) tryNow() {
	d.retryLetters.Store(true)
	d.retryNow.Broadcast()
	d.letters.wake()
}

// awaitAttempt returns when a failing delivery has failed again since began, or does not fail
// any more; after retryTimeout at the latest.
func (d *delivery) awaitAttempt(ctx context.Context, began time.Time) {
	ctx, cancel := context.WithTimeout(ctx, retryTimeout)
	defer cancel()
	for ctx.Err() == nil {
		changed := d.health.changed.Wait()
		if s := d.snapshot(); s.Attempts == 0 || s.LastErrorTime != nil && s.LastErrorTime.After(began) {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// replay sets a sink back.
func (e *Exporter) replay(w http.ResponseWriter, r *http.Request) error {
	var asked ReplayRequest
	if err := readBody(w, r, &asked, `{"seq":...} or {"time":...}`); err != nil {
		return err
	}
	if asked.Seq == 0 && asked.Time.IsZero() {
		return &requestError{http.StatusBadRequest, "the replay needs a seq or a time to begin at"}
	}
	planned, err := e.Replay(r.Context(), r.PathValue("sink"), asked.ReplayFrom, asked.DryRun)
	if _, refused := errors.AsType[*requestError](err); err != nil && !refused {
		err = &requestError{http.StatusConflict, err.Error()}
	}
	if err != nil {
		return err
	}
	return e.answer(w, planned.Document(!asked.DryRun))
}
