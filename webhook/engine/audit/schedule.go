package audit

import (
	"context"
	"errors"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/docket-export/docket/webhook/engine/lease"
)

// minInterval keeps the ids of runs apart: they are seconds.
const minInterval = time.Second

// Schedule makes runs, each an interval after the start of the one before or, where that
// took longer, behind it.
type Schedule struct {
	Config
	Interval time.Duration // at least a second
	// Lease is what one pod of several has while it audits. nil: there is no other.
	Lease resourcelock.Interface
	// Ended is told of each run, and why its record was not stored, if so. nil: nobody is told.
	Ended func(Report, error)

	next time.Time // the earliest start of the next run
}

// Run audits until ctx is done. A run under way then, or when the Lease is lost, is not complete.
func (s *Schedule) Run(ctx context.Context) error {
	if s.Interval < minInterval {
		return errors.New("audit interval: must be at least 1s")
	}
	if s.Lease != nil {
		return lease.Hold(ctx, s.Lease, s.audit)
	}
	s.audit(ctx)
	return nil
}

// audit makes runs until ctx is done.
func (s *Schedule) audit(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
		case <-time.After(time.Until(s.next)):
		}
		if ctx.Err() != nil {
			return
		}
		s.next = time.Now().Add(s.Interval)
		report, err := Run(ctx, s.Config)
		if report.Complete {
			s.previous = &report.Violations
		}
		if s.Ended != nil {
			s.Ended(report, err)
		}
		if err != nil && s.Log != nil {
			s.Log.Error("the record of an audit was not stored", "id", report.ID, "error", err)
		}
	}
}
