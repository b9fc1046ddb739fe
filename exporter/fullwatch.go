package exporter

import (
	"context"
	"sync"
	"time"

	"github.com/docket-export/docket/exporter/queue"
)

// fullWatch tells the episodes in which the queue is full. A queue at its bound
// is full and not full by turns, as segments go and come: to call each turn news
// would fill the log, so an episode ends only after a calm while.
type fullWatch struct {
	mu    sync.Mutex
	since time.Time // when the episode that goes on began; zero: there is none
	seen  time.Time // when the queue was full last, as far as is known
}

const (
	// fullLook is how often somebody looks when nobody asks for the status.
	fullLook = time.Second
	// fullCalm is how long a queue must not be full for the episode to be over.
	fullCalm = 10 * time.Second
)

// look takes stats, which are as of now, into account and reports whether an
// episode begins or ends. A queue that has dropped records was full then, though
// it has room now.
func (w *fullWatch) look(stats queue.Stats, now time.Time) (began, ended bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if stats.Full {
		w.seen = now
	} else if stats.LastDrop.After(w.seen) {
		w.seen = stats.LastDrop
	}
	full := !w.seen.IsZero() && now.Sub(w.seen) < fullCalm
	began, ended = full && w.since.IsZero(), !full && !w.since.IsZero()
	if began {
		w.since = w.seen
	}
	if ended {
		w.since = time.Time{}
	}
	return began, ended
}

// episode is when the present episode began; zero when there is none.
func (w *fullWatch) episode() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.since
}

// watchFull looks until ctx is done, so that a full queue is in the log although
// nobody asks for the status.
func (e *Exporter) watchFull(ctx context.Context) {
	tick := time.NewTicker(fullLook)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			e.lookAtQueue()
		case <-ctx.Done():
			return
		}
	}
}

// lookAtQueue returns the stats of the queue and logs when it becomes full, or no
// longer is. What it drops, the queue logs itself.
func (e *Exporter) lookAtQueue() queue.Stats {
	stats, now := e.queue.Stats(), time.Now()
	e.flow.look(stats, now)
	began, ended := e.full.look(stats, now)
	cfg := e.config().Queue
	if cfg.WhenFull == DropOldest {
		return stats
	}
	if began {
		e.log.Warn("queue is full", "reason", fullReason(stats, cfg))
	}
	if ended {
		e.log.Info("queue has room again")
	}
	return stats
}
