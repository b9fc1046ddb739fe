package podstatus

import (
	"context"
	"log/slog"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// signal says that something has changed since somebody looked: all changes within the pause after the first are one.
type signal struct {
	queue workqueue.TypedRateLimitingInterface[struct{}]
	pause time.Duration
}

func newSignal(pause time.Duration) signal {
	retry := workqueue.NewTypedItemExponentialFailureRateLimiter[struct{}](500*time.Millisecond, time.Minute)
	return signal{workqueue.NewTypedRateLimitingQueue(retry), pause}
}

func (s signal) set() { s.queue.AddAfter(struct{}{}, s.pause) }

// each calls do after changes until ctx is done, and again, ever less often, while do fails.
func (s signal) each(ctx context.Context, log *slog.Logger, what string, do func(context.Context) error) {
	defer context.AfterFunc(ctx, s.queue.ShutDown)()
	for {
		change, ended := s.queue.Get()
		if ended || ctx.Err() != nil {
			return
		}
		if err := do(ctx); err == nil {
			s.queue.Forget(change)
		} else if ctx.Err() == nil {
			log.Warn(what, "error", err)
			s.queue.AddRateLimited(change)
		}
		s.queue.Done(change)
	}
}
