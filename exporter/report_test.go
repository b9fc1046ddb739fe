package exporter

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sources"
)

// reportingSource says what a test tells it to. It is its own configuration.
type reportingSource struct {
	sources.Config
	fails  atomic.Bool // Run cannot start
	report atomic.Pointer[sources.Report]
}

func (s *reportingSource) New(sources.Env) sources.Source { return s }
func (s *reportingSource) Connections() int               { return 0 }

func (s *reportingSource) Run(ctx context.Context, _ sources.Intake, ready func()) error {
	if s.fails.Load() {
		return errors.New("cannot start")
	}
	ready()
	<-ctx.Done()
	return nil
}

func (s *reportingSource) Report() sources.Report {
	if r := s.report.Load(); r != nil {
		return *r
	}
	return sources.Report{}
}

// silentSource has nothing to report.
type silentSource struct{ sources.Config }

func (s silentSource) New(sources.Env) sources.Source { return s }
func (s silentSource) Connections() int               { return 3 }

func (s silentSource) Run(ctx context.Context, _ sources.Intake, ready func()) error {
	ready()
	<-ctx.Done()
	return nil
}

// What a source reports is its state in /status, while it runs; what it has lost is
// there in any state, and a metric.
func TestReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reporter := &reportingSource{}
		reporter.fails.Store(true)
		reporter.report.Store(&sources.Report{Trouble: "trouble", Lost: 1})
		e, err := New(&Config{
			Queue:    QueueConfig{Directory: socketless(t), MaxBytes: 16 << 20, WhenFull: Block},
			Limits:   defaultLimits(),
			Shutdown: ShutdownConfig{DrainTimeout: config.Duration(time.Second)},
			Sources:  []SourceConfig{{Name: "files", Config: reporter}, {Name: "socket", Config: silentSource{}}},
		}, Options{Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := e.Status().Sources[0], (SourceStatus{Name: "files", State: Degraded, Reason: "starting", Lost: 1}); !reflect.DeepEqual(got, want) {
			t.Errorf("before Run: got %+v, want %+v", got, want)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- e.Run(ctx) }()
		defer func() {
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}()
		until := func(ok func() bool) {
			for !ok() {
				time.Sleep(time.Millisecond) // of the bubble's time
			}
		}
		until(func() bool { return e.Status().Sources[0].State == Error })
		if got, want := e.Status().Sources[0], (SourceStatus{Name: "files", State: Error, Reason: "cannot start", Lost: 1}); !reflect.DeepEqual(got, want) {
			t.Errorf("a source that cannot start: got %+v, want %+v", got, want)
		}
		reporter.fails.Store(false)
		until(func() bool { // both run
			s := e.Status().Sources
			return s[0].State != Error && s[1].State == Active
		})

		for _, tt := range []struct {
			report sources.Report
			want   SourceStatus
		}{
			{sources.Report{}, SourceStatus{Name: "files", State: Active}},
			{sources.Report{Trouble: "/tmp/violations: permission denied: run as uid 1000"}, SourceStatus{Name: "files", State: Degraded, Reason: "/tmp/violations: permission denied: run as uid 1000"}},
			{sources.Report{Trouble: "two files cannot be read", Lost: 2}, SourceStatus{Name: "files", State: Degraded, Reason: "two files cannot be read", Lost: 2}},
			{sources.Report{Lost: 3}, SourceStatus{Name: "files", State: Active, Lost: 3}},
			{sources.Report{Lost: 3, LostLines: 12, LostBytes: 4608}, SourceStatus{Name: "files", State: Active, Lost: 3, LostLines: 12, LostBytes: 4608}},
			{sources.Report{PassedOver: map[string]uint64{"NoObject": 4}}, SourceStatus{Name: "files", State: Active, PassedOver: map[string]uint64{"NoObject": 4}}},
		} {
			reporter.report.Store(&tt.report)
			s := e.Status()
			if !reflect.DeepEqual(s.Sources[0], tt.want) {
				t.Errorf("%+v: got %+v, want %+v", tt.report, s.Sources[0], tt.want)
			}
			if want := (SourceStatus{Name: "socket", State: Active, Connections: 3}); !reflect.DeepEqual(s.Sources[1], want) {
				t.Errorf("the other source: got %+v, want %+v", s.Sources[1], want)
			}
			if got := sourceLost(t, e); got["files"] != float64(tt.report.Lost) || got["socket"] != 0 || len(got) != 2 {
				t.Errorf("docket_source_lost_total: got %v, want %d for files and 0 for socket", got, tt.report.Lost)
			}
			text, err := json.Marshal(s.Sources)
			if err != nil {
				t.Fatal(err)
			}
			if has := strings.Contains(string(text), `"lost":`); has != (tt.want.Lost > 0) {
				t.Errorf("got %s, want \"lost\" only where something is", text)
			}
		}
	})
}

// sourceLost is docket_source_lost_total by source.
func sourceLost(t *testing.T, e *Exporter) map[string]float64 {
	t.Helper()
	families, err := e.metrics.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[string]float64)
	for _, f := range families {
		if f.GetName() != "docket_source_lost_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			values[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
		}
	}
	return values
}
