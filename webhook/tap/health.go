package tap

import (
	"log/slog"
	"sync"
	"sync/atomic"
)

// health logs that the engine fails: once, again when it fails in another way, and when
// it answers again.
type health struct {
	log     *slog.Logger
	failing atomic.Bool // failures > 0, for works

	mu       sync.Mutex
	why      string // guarded by mu
	failures int    // since it answered last; guarded by mu
}

func (h *health) fails(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failures++
	h.failing.Store(true)
	if why := err.Error(); why != h.why {
		h.why = why
		h.log.Warn("the engine does not answer: requests get 502", "error", why)
	}
}

func (h *health) works() {
	if !h.failing.Load() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failures > 0 {
		h.log.Info("the engine answers again", "failed", h.failures)
	}
	h.why, h.failures = "", 0
	h.failing.Store(false)
}
