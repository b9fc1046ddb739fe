package tailsource

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/tailsource/follow"
	"github.com/docket-export/docket/sources/tailsource/formats"
)

// grace is how long a file is read on after its successor has contents. A writer that
// flushes on several ways, as container runtimes do, may be that late.
const grace = time.Second

// source follows one log.
type source struct {
	config Config
	env    sources.Env
	grace  time.Duration // grace, but in tests

	once     sync.Once
	audits   sources.AuditLog
	report   atomic.Pointer[report]
	follower atomic.Pointer[follow.Follower] // of the current Run
}

// Run follows the log; see sources.Source. That there is no file, or that it may not be
// read, is no error: it is reported, and the file read as soon as it can be.
func (s *source) Run(ctx context.Context, in sources.Intake, ready func()) error {
	path, err := filepath.Abs(s.config.Path)
	if err != nil {
		return fmt.Errorf("path %s: %w", s.config.Path, err)
	}
	known, err := loadState(s.env.StateDir, path, s.config.Format, s.env.Log)
	if err != nil {
		return err
	}
	s.sayWhatLogsLack()
	r := newReport(&s.audits, s.env.Log)
	if before := s.report.Load(); before != nil {
		r.lost.Store(before.lost.Load())
	}
	s.report.Store(r)
	f := s.follow(path, known, r)
	defer f.Close()
	s.follower.Store(f)
	following, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { f.Run(following) })
	defer wg.Wait()
	defer stop()
	ready()
	return newReader(s.env, s.config, in, f, r, known).run(ctx)
}

func (s *source) follow(path string, known *state, r *report) *follow.Follower {
	return follow.New(follow.Options{Path: path, Grace: s.grace, Known: known.History, First: known.first, Report: r, Log: s.env.Log})
}

// sayWhatLogsLack says once what no reader of a log can make good.
func (s *source) sayWhatLogsLack() {
	s.once.Do(func() {
		switch s.config.Format {
		case formats.GatekeeperDenies:
			s.env.Log.Info("Gatekeeper samples its log: of equal lines it writes the first 100 in a second, then every hundredth. " +
				"What it left out of an audit is counted by the audit's own totals; what it left out of admissions cannot be told. Its disk export leaves out less")
		case formats.OPAConsole:
			s.env.Log.Info("OPA's console is no durable log: what it does not write when it ends, or when its log level hides decisions, cannot be told. Its decision-log upload to docket is acknowledged")
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
