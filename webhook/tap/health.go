package tap

import (
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
)

const (
	// maxTold bounds the log of an engine that fails in ever other ways, or fails and
	// answers by turns: so many failures in each quietTime.
	maxTold   = 8
	quietTime = 10 * time.Minute
	// maxReason bounds what an engine, which may not be the right one, can put into the log.
	maxReason = 1 << 10
)

// health logs that the engine fails: once, again when it fails in another way, and when it
// answers again.
type health struct {
	log     *slog.Logger
	failing atomic.Bool // since it answered last, for works

	mu       sync.Mutex
	told     string    // how it has failed last, as logged since it answered; guarded by mu
	failures int       // since it was logged that it answers; guarded by mu
	lines    int       // failures logged since the time below; guarded by mu
	since    time.Time // guarded by mu
}

func (h *health) fails(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failures++
	h.failing.Store(true)
	if now := time.Now(); now.Sub(h.since) >= quietTime {
		h.since, h.lines = now, 0
	}
	if why := steady(err); why != h.told && h.lines < maxTold {
		h.told = why
		h.lines++
		h.log.Warn("the engine does not answer: requests get 502", "error", why)
	}
}

// steady is the text of err without our own port, which is another for each connection. It
// is bounded, and has no control characters.
func steady(err error) string {
	text := err.Error()
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Source != nil {
		same := *op
		same.Source = nil
		text = strings.ReplaceAll(text, op.Error(), same.Error())
	}
	if len(text) > maxReason {
		text = text[:maxReason] + "..."
	}
	return strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return unicode.ReplacementChar
	}, text)
}

func (h *health) works() {
	if !h.failing.Load() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.told != "" { // else nobody knows that it has failed
		h.log.Info("the engine answers again", "failed", h.failures)
		h.failures = 0
	}
	h.told = ""
	h.failing.Store(false)
}
