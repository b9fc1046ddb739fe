package tailsource

import (
	"log/slog"
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/failures"
	"github.com/docket-export/docket/sources/tailsource/follow"
)

// report is what a source says of itself for /status, or of one of its files.
type report struct {
	*totals
	file string // whose failures these are, and a NUL; empty: of the source
}

// totals are what the reports of all files share.
type totals struct {
	failures *failures.List
	log      *slog.Logger
	lost     atomic.Uint64
	lines    atomic.Uint64 // of what is lost, as far as they are known
	bytes    atomic.Uint64 // and those of other losses

	mu     sync.Mutex
	passed map[string]uint64 // lines, by reason; guarded by mu
}

// What can fail beside what is followed.
const (
	theReading = "reading"
	theState   = "state"
	theName    = "name"
	theFormat  = "format"
)

func newReport(log *slog.Logger) *report {
	return &report{totals: &totals{failures: failures.New(log, "log file: "), log: log, passed: make(map[string]uint64)}}
}

// of is the report of one file of several.
func (r *report) of(path string) *report { return &report{r.totals, path + "\x00"} }

// Set implements follow.Report.
func (r *report) Set(about, text string) { r.failures.Set(r.file+about, text) }

// clear ends all failures of the file.
func (r *report) clear() { r.failures.SetAll(r.file, nil) }

// Gap implements follow.Report.
func (r *report) Gap(n follow.Lost, text string, args ...any) {
	r.lost.Add(1)
	r.lines.Add(n.Lines)
	r.bytes.Add(n.Bytes)
	switch {
	case n.Lines > 0:
		args = append(args, "lines", n.Lines)
	case n.Bytes > 0:
		args = append(args, "bytes", n.Bytes)
	}
	r.log.Error(text, args...)
}

// passOver counts lines that are no records.
func (r *report) passOver(counts map[string]uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for reason, n := range counts {
		r.passed[reason] += n
	}
}

func (r *report) get() sources.Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	return sources.Report{PassedOver: maps.Clone(r.passed), Trouble: strings.Join(r.failures.All(), "; "), Lost: r.lost.Load(), LostLines: r.lines.Load(), LostBytes: r.bytes.Load()}
}
