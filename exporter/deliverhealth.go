package exporter

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sinks"
)

// deliveryHealth is how a delivery is doing: what is wrong with it now, which may be
// several things at a time, for its batches are on their way side by side.
type deliveryHealth struct {
	log *slog.Logger

	mu    sync.Mutex
	open  []*trouble    // what is wrong now, in the order in which it began; guarded by mu
	shown deliveryState // guarded by mu
}

// deliveryState is what /status shows of a delivery.
type deliveryState struct {
	state     State
	reason    string
	lastError string
	failed    time.Time // when lastError was met last; zero: never
	since     time.Time
}

// trouble is one thing that may go wrong: a batch, the reading of the queue. It
// belongs to whoever works on that, and may fail and end any number of times.
type trouble struct {
	h    *deliveryHealth
	seen deliveryState // while it is open: what was met last, since it began; guarded by h.mu
}

func newDeliveryHealth(log *slog.Logger) *deliveryHealth {
	return &deliveryHealth{log: log, shown: deliveryState{state: Active, since: time.Now()}}
}

func (h *deliveryHealth) trouble() *trouble { return &trouble{h: h} }

// failed records a failure. It is logged when it begins and when it changes, not at
// every attempt, nor for each batch that meets the same.
func (t *trouble) failed(state State, reason string, err error) {
	h, now := t.h, time.Now()
	h.mu.Lock()
	news := !slices.ContainsFunc(h.open, func(o *trouble) bool {
		return o.seen.reason == reason && o.seen.lastError == err.Error()
	})
	began := t.seen.since
	if !slices.Contains(h.open, t) {
		h.open, began = append(h.open, t), now
	}
	t.seen = deliveryState{state: state, reason: reason, lastError: err.Error(), failed: now, since: began}
	h.show()
	h.mu.Unlock()
	if !news {
		return
	}
	level := slog.LevelWarn
	if state == Error {
		level = slog.LevelError
	}
	h.log.Log(context.Background(), level, "delivery fails: records are kept and tried again", "reason", reason, "error", err)
}

// sinkFailed records a failed attempt and says of which kind it is.
func (t *trouble) sinkFailed(err error) *sinks.Failure {
	f := sinks.FailureOf(err)
	state := Degraded
	if f.Kind == sinks.Misconfigured || f.Kind == sinks.Rejected {
		state = Error
	}
	t.failed(state, f.Kind.String(), f)
	return f
}

// over says that t has gone, after so many attempts. Nothing is said when it never
// began, or while something else is wrong.
func (t *trouble) over(attempts int) {
	if began, well := t.end(); well {
		t.h.log.Info("delivery works again", "attempts", attempts, "after", time.Since(began).Round(time.Millisecond).String())
	}
}

// forget ends t without a word: whoever met it has been told to stop.
func (t *trouble) forget() { t.end() }

// end says when t began, and whether it was open and nothing else is wrong now.
func (t *trouble) end() (began time.Time, well bool) {
	h := t.h
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.Index(h.open, t)
	if i < 0 {
		return time.Time{}, false
	}
	h.open = slices.Delete(h.open, i, i+1)
	h.show()
	return t.seen.since, len(h.open) == 0
}

func (t *trouble) isOpen() bool {
	t.h.mu.Lock()
	defer t.h.mu.Unlock()
	return slices.Contains(t.h.open, t)
}

// show makes what is shown the worst of what is wrong. Callers hold mu.
func (h *deliveryHealth) show() {
	before := h.shown
	// The last error stays for whoever asks later what it was.
	h.shown = deliveryState{state: Active, lastError: before.lastError, failed: before.failed}
	for _, t := range h.open {
		if h.shown.state == Active || t.seen.state == Error && h.shown.state != Error {
			h.shown = t.seen
		}
	}
	if h.shown.since = before.since; h.shown.state != before.state {
		h.shown.since = time.Now()
	}
}

// snapshot returns what /status shows. It waits for no disk.
func (d *delivery) snapshot() SinkStatus {
	d.health.mu.Lock()
	s := d.health.shown
	d.health.mu.Unlock()
	status := SinkStatus{
		Name: d.cfg.Name, State: s.state, Reason: s.reason, LastError: s.lastError, Since: &s.since,
		Cursor: d.cursor.Account().Next,
	}
	if !s.failed.IsZero() {
		status.LastErrorTime = &s.failed
	}
	if letters := d.letters.stats(); s.state == Active && nearlyFull(letters.Bytes, letters.MaxBytes) {
		status.State, status.Reason = Degraded, "DeadLettersNearlyFull"
		status.LastError = fmt.Sprintf("%d dead letters take %d%% of %s: when they are full the sink stops at the next rejected record; redrive or purge them, or raise deadLetters.maxBytes",
			letters.Letters, letters.Bytes*100/letters.MaxBytes, config.Size(letters.MaxBytes))
	}
	if oldest, ok := d.cursor.OldestPending(); ok {
		status.LagSeconds = time.Since(oldest).Seconds()
	}
	return status
}

// nearlyFull is when the bound of the dead letters is told of before it is met.
func nearlyFull(n, bound int64) bool { return bound > 0 && n >= bound/10*8 }
