package tailsource

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/tailsource/follow"
	"github.com/docket-export/docket/sources/tailsource/formats"
)

const (
	// grace is how long a file is read on after its successor has contents. A writer that
	// flushes on several ways, as container runtimes do, may be that late.
	grace = time.Second
	// poll is how often docket looks for new lines and files. Waiting for reports of the
	// system instead is no use: a busy log reports thousands of writes a second, and a
	// network file system none.
	poll = time.Second
)

// source follows one log, or those that a pattern or a directory names.
type source struct {
	config Config
	env    sources.Env

	grace, poll time.Duration // as the constants, but in tests

	once     sync.Once
	report   atomic.Pointer[report]
	follower atomic.Pointer[follow.Follower] // of the file that was found last
}

// Run follows the log; see sources.Source. A missing or unreadable file is not an
// error: Run reports it, and reads the file as soon as it can.
func (s *source) Run(ctx context.Context, in sources.Intake, ready func()) error {
	s.sayWhatLogsLack()
	r := newReport(s.env.Log)
	if before := s.report.Load(); before != nil {
		r.lost.Store(before.lost.Load())
		r.passOver(before.get().PassedOver)
	}
	s.report.Store(r)
	ready = sync.OnceFunc(ready)
	for {
		p, err := pathsOf(s.config.Path)
		if err != nil {
			return fmt.Errorf("path %s: %w", s.config.Path, err)
		}
		if err = newLogs(s, in, r, p).run(ctx, ready); !errors.Is(err, errOther) {
			return err
		}
	}
}

// sayWhatLogsLack says once what no reader of a log can make good.
func (s *source) sayWhatLogsLack() {
	s.once.Do(func() {
		switch s.config.Format {
		case formats.GatekeeperDenies:
			s.env.Log.Info("Gatekeeper samples its log: of equal lines in a second it writes the first 100, then every hundredth. " +
				"docket cannot tell which are missing. Gatekeeper's disk export leaves out less")
		case formats.OPAConsole:
			s.env.Log.Info("OPA's console is not a durable log: docket cannot tell which decisions OPA did not write at its end, or because of its log level. Prefer OPA's decision-log upload, which docket acknowledges")
		}
	})
}

// Connections is 0: nobody connects.
func (s *source) Connections() int { return 0 }

// Report says whether the log can be read, and counts what is known to be missing.
func (s *source) Report() sources.Report {
	if r := s.report.Load(); r != nil {
		return r.get()
	}
	return sources.Report{}
}
