package tap

import (
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
)

const (
	// maxTold bounds the log of an engine that fails in ever other ways, or fails and
	// answers by turns: so many ways at once, and one more each quietTime.
	maxTold   = 8
	quietTime = time.Minute
	// maxReason bounds what an engine, which may not be the right one, can put into the log.
	maxReason = 1 << 10
)

// health logs that the engine fails: once, again for each other way in which it fails, and when
// it answers again.
type health struct {
	log     *slog.Logger
	failing atomic.Bool // since it answered last, for works

	mu       sync.Mutex
	told     []string  // how it has failed last, as logged since it answered; guarded by mu
	failures int       // since it was logged that it answers; guarded by mu
	spent    int       // of maxTold; guarded by mu
	since    time.Time // spent is of this moment; guarded by mu
}

func (h *health) fails(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failures++
	h.failing.Store(true)
	if why := steady(err); !slices.Contains(h.told, why) && h.mayTell(time.Now()) {
		h.told = append(h.told[max(0, len(h.told)+1-maxTold):], why)
		h.log.Warn("the engine does not answer: requests get 502", "error", why)
	}
}

// mayTell reports whether one more failure may be logged.
func (h *health) mayTell(now time.Time) bool {
	back := min(h.spent, int(now.Sub(h.since)/quietTime))
	h.spent -= back
	h.since = h.since.Add(time.Duration(back) * quietTime)
	if h.spent == 0 {
		h.since = now
	}
	if h.spent == maxTold {
		return false
	}
	h.spent++
	return true
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
	if len(h.told) > 0 { // else nobody knows that it has failed
		h.log.Info("the engine answers again", "failed", h.failures)
		h.failures = 0
	}
	h.told = nil
	h.failing.Store(false)
}
