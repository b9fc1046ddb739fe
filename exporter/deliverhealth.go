package exporter

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/internal/outage"
	"github.com/docket-export/docket/internal/signal"
	"github.com/docket-export/docket/sinks"
)

// deliveryHealth is how a delivery is doing. Several things may fail at a time, for its
// batches are on their way side by side.
type deliveryHealth struct {
	log     *slog.Logger
	said    outage.Log
	changed signal.Signal // broadcast when what is shown has changed

	mu    sync.Mutex
	open  []*failure    // those going on, in the order in which they began; guarded by mu
	shown deliveryState // guarded by mu
}

// deliveryState is what /status shows of a delivery.
type deliveryState struct {
	state     State
	reason    string
	lastError string
	failed    time.Time // when lastError was met last; zero: never
	since     time.Time
	attempts  int       // failed ones since it began
	next      time.Time // attempt; zero: none is waited for
}

// failure is one thing that may go wrong, such as a batch or the reading of the queue.
// It may begin and end any number of times.
type failure struct {
	h    *deliveryHealth
	mute bool          // it is not of the delivery, and not logged here; guarded by h.mu
	seen deliveryState // while it goes on: what was met last, since it began; guarded by h.mu
}

func newDeliveryHealth(log *slog.Logger) *deliveryHealth {
	return &deliveryHealth{log: log, shown: deliveryState{state: Active, since: time.Now()}}
}

func (h *deliveryHealth) failure() *failure { return &failure{h: h} }

// met records that it happened. It is logged when it begins and when it becomes another, not
// at every attempt, nor for each batch that meets the same.
func (f *failure) met(state State, reason string, err error) {
	h := f.h
	h.mu.Lock()
	news := h.said.Fails(reason + ": " + err.Error())
	f.note(state, reason, err)
	h.mu.Unlock()
	if !news {
		return
	}
	level := slog.LevelWarn
	if state == Error {
		level = slog.LevelError
	}
	h.log.Log(context.Background(), level, "delivery fails: records are kept and retried", "reason", reason, "error", err)
}

// note is met without a word. Callers hold h.mu.
func (f *failure) note(state State, reason string, err error) {
	h, now := f.h, time.Now()
	began, attempts := f.seen.since, f.seen.attempts
	if !slices.Contains(h.open, f) {
		h.open, began, attempts = append(h.open, f), now, 0
	}
	f.seen = deliveryState{state: state, reason: reason, lastError: err.Error(), failed: now, since: began, attempts: attempts + 1}
	h.show()
}

// trouble implements sinks.Env. The records are delivered, and the sink itself logs.
func (f *failure) trouble(err error, pause time.Duration) {
	if err == nil {
		f.forget()
		return
	}
	f.h.mu.Lock()
	f.mute = true
	f.note(Degraded, sinks.FailureOf(err).Word(), err)
	f.h.mu.Unlock()
	f.waits(pause)
}

// waits says that the next attempt is made after pause.
func (f *failure) waits(pause time.Duration) {
	f.h.mu.Lock()
	defer f.h.mu.Unlock()
	f.seen.next = time.Now().Add(pause)
	f.h.show()
}

// metAtSink records a failed attempt and says of which kind it is.
func (f *failure) metAtSink(err error) *sinks.Failure {
	attempt := sinks.FailureOf(err)
	state := Degraded
	if attempt.Kind == sinks.Misconfigured || attempt.Kind == sinks.Rejected {
		state = Error
	}
	f.met(state, attempt.Word(), attempt)
	return attempt
}

// over ends f after so many attempts. It is logged unless f never began or was not logged,
// or something else fails still.
func (f *failure) over(attempts int) {
	began, well := f.end()
	if !well {
		return
	}
	if _, news := f.h.said.Works(); news {
		f.h.log.Info("delivery works again", "attempts", attempts, "after", time.Since(began).Round(time.Millisecond).String())
	}
}

// forget ends f without a word: the delivery was told to stop.
func (f *failure) forget() { f.end() }

// end says when f began, and whether it was going on and nothing else of the delivery fails now.
func (f *failure) end() (began time.Time, well bool) {
	h := f.h
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.Index(h.open, f)
	if i < 0 {
		return time.Time{}, false
	}
	h.open = slices.Delete(h.open, i, i+1)
	h.show()
	return f.seen.since, !slices.ContainsFunc(h.open, func(f *failure) bool { return !f.mute })
}

func (f *failure) isOpen() bool {
	f.h.mu.Lock()
	defer f.h.mu.Unlock()
	return slices.Contains(f.h.open, f)
}

// show makes what is shown the worst of what fails. Callers hold mu.
func (h *deliveryHealth) show() {
	defer h.changed.Broadcast()
	before := h.shown
	h.shown = deliveryState{state: Active, lastError: before.lastError, failed: before.failed} // the last error stays
	for _, f := range h.open {
		if h.shown.state == Active || f.seen.state == Error && h.shown.state != Error {
			h.shown = f.seen
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
		Attempts: s.attempts, Cursor: d.cursor.Account().Next,
	}
	if !s.failed.IsZero() {
		status.LastErrorTime = &s.failed
	}
	if s.next.After(time.Now()) {
		status.NextAttempt = &s.next
	}
	letters := d.letters.stats()
	status.DeadLetters = letters.Letters
	if s.state == Active && nearlyFull(letters.Bytes, letters.MaxBytes) {
		status.State, status.Reason = Degraded, "DeadLettersNearlyFull"
		status.LastError = fmt.Sprintf("%d dead letters take %d%% of %s: when they are full, the next rejected record stops the sink; redrive or purge some, or raise deadLetters.maxBytes",
			letters.Letters, letters.Bytes*100/letters.MaxBytes, config.Size(letters.MaxBytes))
	}
	if d.through.Load() > 0 {
		status.State, status.Reason = Degraded, "Retired"
	}
	status.Transactions = d.transactionStatus()
	if oldest, ok := d.cursor.OldestPending(); ok {
		status.LagSeconds = time.Since(oldest).Seconds()
	}
	return status
}

// nearlyFull is when the bound of the dead letters is told of before it is met.
func nearlyFull(n, bound int64) bool { return bound > 0 && n >= bound/10*8 }
