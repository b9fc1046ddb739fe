package tailsource

import (
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/docket-export/docket/sources"
)

// report is what a source says of itself for /status. The same trouble is logged once.
type report struct {
	log *slog.Logger

	mu      sync.Mutex
	trouble [parts]string // guarded by mu
	lost    uint64        // guarded by mu
}

// concern is what can be in trouble by itself.
type concern int

const (
	thePath concern = iota
	theHeld
	theReading
	theState
	theName
	parts
)

// set says what is wrong with c and what to do about it; "" when nothing is.
func (r *report) set(c concern, text string) {
	r.mu.Lock()
	before := r.trouble[c]
	r.trouble[c] = text
	r.mu.Unlock()
	switch text {
	case before:
	case "":
		r.log.Info("the trouble is over", "was", before)
	default:
		r.log.Warn("log file: " + text)
	}
}

// gap counts decisions that are known to be lost, or that may be.
func (r *report) gap(text string, args ...any) {
	r.mu.Lock()
	r.lost++
	r.mu.Unlock()
	r.log.Error(text, args...)
}

func (r *report) get() sources.Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	texts := slices.DeleteFunc(slices.Clone(r.trouble[:]), func(s string) bool { return s == "" })
	return sources.Report{Trouble: strings.Join(texts, "; "), Lost: r.lost}
}
