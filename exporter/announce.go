package exporter

import (
	"context"
	"log/slog"
	"sync"

	"github.com/cenkalti/backoff/v4"
)

// announcements are the records that sinks have docket make, on their way to the
// queue. No sink waits for the queue: a delivery that did could wait for room that
// only itself can make. So while the queue takes nothing, the newest announcement of a
// sink replaces the one before.
type announcements struct {
	log   *slog.Logger
	store func(ctx context.Context, record any) error // see ownRecords.put
	pause backoff.BackOff                             // owned by run
	awake chan struct{}                               // holds one word: something is waiting

	mu      sync.Mutex
	waiting map[string]any // by sink; guarded by mu
	storing bool           // one that is not in waiting; guarded by mu
	ended   bool           // announcements are left to the next start; guarded by mu
}

func newAnnouncements(store func(context.Context, any) error, pause backoff.BackOff, log *slog.Logger) *announcements {
	return &announcements{log: log, store: store, pause: pause, awake: make(chan struct{}, 1), waiting: map[string]any{}}
}

// of returns sinks.Env.Announce for the sink of this name.
func (a *announcements) of(sink string) func(record any) {
	return func(record any) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.ended {
			return
		}
		a.waiting[sink] = record
		select {
		case a.awake <- struct{}{}:
		default: // run will look anyway
		}
	}
}

// next removes one announcement; ok is false when there is none.
func (a *announcements) next() (sink string, record any, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.storing = false
	for sink, record = range a.waiting {
		delete(a.waiting, sink)
		a.storing = true
		return sink, record, true
	}
	return "", nil, false
}

// endIfIdle ends the announcements when all of them so far are stored, and reports whether they have ended.
// A sink announces again, when it is opened next, what comes after.
func (a *announcements) endIfIdle() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = a.ended || len(a.waiting) == 0 && !a.storing
	return a.ended
}

// putBack keeps an announcement that could not be stored, unless there is a newer one.
func (a *announcements) putBack(sink string, record any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, newer := a.waiting[sink]; !newer {
		a.waiting[sink] = record
	}
}

// run stores announcements until ctx is done. The sink announces the others again when
// it is opened next.
func (a *announcements) run(ctx context.Context) {
	failed := ""
	for ctx.Err() == nil {
		sink, record, ok := a.next()
		if !ok {
			select {
			case <-a.awake:
			case <-ctx.Done():
			}
			continue
		}
		err := a.store(ctx, record)
		if err == nil {
			failed = ""
			a.pause.Reset()
			continue
		}
		a.putBack(sink, record)
		if text := err.Error(); text != failed && ctx.Err() == nil {
			failed = text
			a.log.Warn("a record about a sink cannot be stored; docket tries again", "sink", sink, "error", err)
		}
		wait(ctx, a.pause.NextBackOff())
	}
}
