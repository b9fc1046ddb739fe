package tailsource

import (
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/tailsource/follow"
)

// report is what a source says of itself for /status. The same failure is logged once.
type report struct {
	log *slog.Logger

	mu       sync.Mutex
	failures map[follow.Concern]string // guarded by mu
	lost     uint64                    // guarded by mu
}

func newReport(log *slog.Logger) *report {
	return &report{log: log, failures: make(map[follow.Concern]string)}
}

// What can fail beside what is followed.
const (
	theReading follow.Concern = "reading"
	theState   follow.Concern = "state"
	theName    follow.Concern = "name"
)

// Set implements follow.Report.
func (r *report) Set(about follow.Concern, text string) {
	r.mu.Lock()
	before := r.failures[about]
	r.failures[about] = text
	r.mu.Unlock()
	switch text {
	case before:
	case "":
		r.log.Info("the trouble is over", "was", before)
	default:
		r.log.Warn("log file: " + text)
	}
}

// Gap implements follow.Report.
func (r *report) Gap(text string, args ...any) {
	r.mu.Lock()
	r.lost++
	r.mu.Unlock()
	r.log.Error(text, args...)
}

func (r *report) get() sources.Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	var texts []string
	for _, about := range slices.Sorted(maps.Keys(r.failures)) {
		if text := r.failures[about]; text != "" {
			texts = append(texts, text)
		}
	}
	return sources.Report{Trouble: strings.Join(texts, "; "), Lost: r.lost}
}
