package exporter

import (
	"slices"
	"testing"
)

func TestTroubles(t *testing.T) {
	well := func() *Status {
		return &Status{
			Queue: QueueStatus{State: Active},
			Ledger: Ledger{
				Received: 10, Stored: 7, Duplicate: 1, Refused: map[string]uint64{"TooLarge": 1, "InvalidJSON": 1}, Lost: map[string]uint64{"deny": 5},
				Sinks: map[string]SinkLedger{"bus": {Delivered: 1, Filtered: 1, DeadLettered: 1, Dropped: 1, Corrupt: 1, Pending: 2}},
			},
			Sources: []SourceStatus{{Name: "webhook", State: Active}},
			Sinks:   []SinkStatus{{Name: "bus", State: Active, LastError: "was away"}},
			Config:  ConfigStatus{State: Active},
			Metrics: &MetricsStatus{State: Active},
		}
	}
	for name, test := range map[string]struct {
		change func(*Status)
		want   []string
	}{
		"well":        {func(*Status) {}, nil},
		"no listener": {func(s *Status) { s.Metrics = nil }, nil},
		"all Degraded": {func(s *Status) {
			s.Queue.State, s.Sources[0].State, s.Sinks[0].State, s.Config.State, s.Metrics.State = Degraded, Degraded, Degraded, Degraded, Degraded
		}, nil},
		"queue":  {func(s *Status) { s.Queue.State, s.Queue.Reason = Error, "disk full" }, []string{"queue: disk full"}},
		"source": {func(s *Status) { s.Sources[0].State, s.Sources[0].Reason = Error, "in use" }, []string{"source webhook: in use"}},
		"sink": {func(s *Status) {
			s.Sinks[0].State, s.Sinks[0].Reason, s.Sinks[0].LastError = Error, "Misconfigured", "401"
		}, []string{"sink bus: Misconfigured: 401"}},
		"configuration":         {func(s *Status) { s.Config.State, s.Config.LastError = Error, "line 3: bad" }, []string{"configuration: line 3: bad"}},
		"metrics":               {func(s *Status) { s.Metrics.State, s.Metrics.Reason = Error, "in use" }, []string{"metrics: in use"}},
		"a line lost":           {func(s *Status) { s.Ledger.Received++ }, []string{"the books do not balance: 11 lines were received, and 10 are stored, refused or duplicate"}},
		"a line too many":       {func(s *Status) { s.Ledger.Refused["TooLarge"]++ }, []string{"the books do not balance: 10 lines were received, and 11 are stored, refused or duplicate"}},
		"a record lost":         {func(s *Status) { s.Ledger.Sinks["bus"] = SinkLedger{Delivered: 6} }, []string{"the books do not balance: sink bus accounts for 6 of 7 stored records"}},
		"more than one trouble": {func(s *Status) { s.Queue.State, s.Ledger.Received = Error, 9 }, []string{"queue: ", "the books do not balance: 9 lines were received, and 10 are stored, refused or duplicate"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := well()
			test.change(s)
			if got := s.Troubles(); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// Each part of a sink's account counts.
func TestUnbalanced(t *testing.T) {
	whole := SinkLedger{Delivered: 1, Filtered: 2, DeadLettered: 4, Dropped: 8, Corrupt: 16, Pending: 32}
	for name, less := range map[string]SinkLedger{
		"Delivered": {Delivered: 1}, "Filtered": {Filtered: 2}, "DeadLettered": {DeadLettered: 4}, "Dropped": {Dropped: 8}, "Corrupt": {Corrupt: 16}, "Pending": {Pending: 32},
	} {
		s := SinkLedger{
			whole.Delivered - less.Delivered, whole.Filtered - less.Filtered, whole.DeadLettered - less.DeadLettered,
			whole.Dropped - less.Dropped, whole.Corrupt - less.Corrupt, whole.Pending - less.Pending,
		}
		if got := (Ledger{Received: 63, Stored: 63, Sinks: map[string]SinkLedger{"a": whole, "b": s}}).Unbalanced(); len(got) != 1 {
			t.Errorf("without %s: got %q, want sink b", name, got)
		}
	}
}
