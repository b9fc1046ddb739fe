package sources

import (
	"sync"
	"time"

	"github.com/docket-export/docket/decision"
)

// AuditRun is what became of one run of an audit, as /status shows it.
type AuditRun struct {
	ID         string             `json:"id"`
	Complete   bool               `json:"complete"`
	Reason     decision.RunReason `json:"reason"`
	Violations uint64             `json:"violations"`
	Time       time.Time          `json:"time"` // when its record was handed over
}

// Audits is what a source knows of an audit since the start of the process.
type Audits struct {
	Complete, Incomplete uint64    // runs
	Last                 *AuditRun // nil: none; never changed
}

// AuditLog gathers Audits. The zero value is ready to use. Safe for concurrent use.
type AuditLog struct {
	mu   sync.Mutex
	seen Audits // guarded by mu
}

// Add counts a run whose record was handed over just now.
func (l *AuditLog) Add(run decision.Run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if run.Complete {
		l.seen.Complete++
	} else {
		l.seen.Incomplete++
	}
	l.seen.Last = &AuditRun{ID: run.ID, Complete: run.Complete, Reason: run.Reason, Violations: run.Violations, Time: time.Now()}
}

// Seen returns what was added.
func (l *AuditLog) Seen() Audits {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen
}
