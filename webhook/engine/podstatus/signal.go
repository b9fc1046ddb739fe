package podstatus

import (
	"context"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// signal says that something has changed since somebody looked: any number of changes are one.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) set() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// wait says how long a burst of changes is waited for: until none has come for quiet, and never longer than most.
type wait struct{ quiet, most time.Duration }

// each calls do after each burst of changes until ctx is done, and again, ever less often, while do fails. It logs a
// failure when it is another than the last, and that do works again.
func (s signal) each(ctx context.Context, w wait, log *slog.Logger, what string, do func(context.Context) error) {
	retry := backoff.NewExponentialBackOff()
	failure, attempts := "", 0
	for s.settle(ctx, w) {
		err := do(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			if attempts++; err.Error() != failure {
				failure = err.Error()
				log.Warn(what, "error", err, "attempts", attempts)
			}
			select {
			case <-time.After(retry.NextBackOff()):
			case <-ctx.Done():
			}
			s.set()
		case attempts > 0:
			log.Info(what+": works again", "attempts", attempts)
			failure, attempts = "", 0
			retry.Reset()
		}
	}
}

// settle waits for a change and for the end of its burst. It returns false when ctx is done.
func (s signal) settle(ctx context.Context, w wait) bool {
	select {
	case <-s:
	case <-ctx.Done():
		return false
	}
	most := time.After(w.most)
	for {
		select {
		case <-s:
		case <-time.After(w.quiet):
			return true
		case <-most:
			return true
		case <-ctx.Done():
			return false
		}
	}
}
