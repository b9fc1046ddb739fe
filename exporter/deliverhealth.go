package exporter

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sinks"
)

// deliveryHealth is how a delivery is doing.
type deliveryHealth struct {
	mu    sync.Mutex
	state deliveryState // guarded by mu
}

// deliveryState is what /status shows of a delivery.
type deliveryState struct {
	state     State
	reason    string
	lastError string
	failed    time.Time // when lastError was met last; zero: never
	since     time.Time
}

// sinkFailed records a failed attempt and says of which kind it is.
func (d *delivery) sinkFailed(err error) *sinks.Failure {
	f := sinks.FailureOf(err)
	d.metrics.failed(f.Kind)
	state := Degraded
	if f.Kind == sinks.Misconfigured || f.Kind == sinks.Rejected {
		state = Error
	}
	d.failed(deliveryState{state: state, reason: f.Kind.String(), lastError: f.Error()})
	return f
}

// failed records a failure. It is logged when it begins and when it changes, not
// at every attempt.
func (d *delivery) failed(now deliveryState) {
	now.failed = time.Now()
	now.since = now.failed
	d.health.mu.Lock()
	before := d.health.state
	if before.state == now.state {
		now.since = before.since
	}
	d.health.state = now
	d.health.mu.Unlock()
	if before.reason == now.reason && before.lastError == now.lastError {
		return
	}
	level := slog.LevelWarn
	if now.state == Error {
		level = slog.LevelError
	}
	d.log.Log(context.Background(), level, "delivery fails: records are kept and tried again", "reason", now.reason, "error", now.lastError)
}

func (d *delivery) succeeded(attempts int) {
	d.health.mu.Lock()
	before := d.health.state
	if before.state != Active {
		// The last error stays for whoever asks later what it was.
		d.health.state = deliveryState{state: Active, lastError: before.lastError, failed: before.failed, since: time.Now()}
	}
	d.health.mu.Unlock()
	if before.state != Active {
		d.log.Info("delivery works again", "attempts", attempts, "after", time.Since(before.since).Round(time.Millisecond).String())
	}
}

// snapshot returns what /status shows.
func (d *delivery) snapshot() SinkStatus {
	d.health.mu.Lock()
	s := d.health.state
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
		status.LastError = fmt.Sprintf("%d dead letters take %s of %s: when they are full the sink stops at the next rejected record; redrive or purge them, or raise deadLetters.maxBytes",
			letters.Letters, config.Size(letters.Bytes), config.Size(letters.MaxBytes))
	}
	if oldest, ok := d.cursor.OldestPending(); ok {
		status.LagSeconds = time.Since(oldest).Seconds()
	}
	return status
}

// nearlyFull is when the bound of the dead letters is told of before it is met.
func nearlyFull(n, bound int64) bool { return bound > 0 && n >= bound/10*8 }
