package tailsource

import (
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/failures"
)

// report is what a source says of itself for /status.
type report struct {
	*failures.List
	log    *slog.Logger
	lost   atomic.Uint64
	audits *sources.AuditLog
}

// What can fail beside what is followed.
const (
	theReading = "reading"
	theState   = "state"
	theName    = "name"
)

func newReport(audits *sources.AuditLog, log *slog.Logger) *report {
	return &report{List: failures.New(log, "log file: "), log: log, audits: audits}
}

// Gap implements follow.Report.
func (r *report) Gap(text string, args ...any) {
	r.lost.Add(1)
	r.log.Error(text, args...)
}

func (r *report) get() sources.Report {
	return sources.Report{Trouble: strings.Join(r.All(), "; "), Lost: r.lost.Load(), Audits: r.audits.Seen()}
}
