package tailsource

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/watch"
)

// source follows one log.
type source struct {
	config Config
	env    sources.Env
	grace  time.Duration // grace, but in tests

	once     sync.Once
	report   atomic.Pointer[report]
	follower atomic.Pointer[follower] // of the current Run
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
	r := &report{log: s.env.Log}
	if before := s.report.Load(); before != nil {
		r.lost = before.get().Lost
	}
	s.report.Store(r)
	w := watch.New(poll, s.env.Log)
	defer w.Close()
	f := newFollower(path, known, w, r, s.env.Log)
	f.grace = s.grace
	defer f.close()
	s.follower.Store(f)

	f.scan() // what happens once it is ready is not missed
	following, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { f.run(following) })
	defer wg.Wait()
	defer stop()
	ready()
	return newReader(s.env, s.config, in, f, r, known).run(ctx)
}

// sayWhatLogsLack says once what no reader of a log can make good.
func (s *source) sayWhatLogsLack() {
	s.once.Do(func() {
		switch s.config.Format {
		case GatekeeperDenies:
			s.env.Log.Info("Gatekeeper samples its log: of equal lines it writes the first 100 in a second, then every hundredth. " +
				"What it left out of an audit is counted by the audit's own totals; what it left out of admissions cannot be told. Its disk export leaves out less")
		case OPAConsole:
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
