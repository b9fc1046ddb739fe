package tap

import (
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// maxTold bounds the log of an engine that fails in ever other ways.
const maxTold = 8

// health logs that the engine fails: once, again for each other way in which it fails, and when
// it answers again.
type health struct {
	log     *slog.Logger
	failing atomic.Bool // failures > 0, for works

	mu       sync.Mutex
	told     []string // how it fails, as logged since it answered last; guarded by mu
	failures int      // since then; guarded by mu
}

func (h *health) fails(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failures++
	h.failing.Store(true)
	if why := steady(err); len(h.told) < maxTold && !slices.Contains(h.told, why) {
		h.told = append(h.told, why)
		h.log.Warn("the engine does not answer: requests get 502", "error", why)
	}
}

// steady is the text of err without our own port, which is another for each connection.
func steady(err error) string {
	text := err.Error()
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Source != nil {
		same := *op
		same.Source = nil
		text = strings.ReplaceAll(text, op.Error(), same.Error())
	}
	return text
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
	h.told, h.failures = nil, 0
	h.failing.Store(false)
}
