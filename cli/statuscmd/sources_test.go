package statuscmd

import (
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/sources"
)

// What sources know to be lost is shown only when there is some, connections only where
// producers connect.
func TestWriteStatusOfSources(t *testing.T) {
	now := time.Date(2026, 1, 5, 10, 4, 7, 0, time.UTC)
	last := now.Add(-90 * time.Second)
	run := func(complete bool, reason decision.RunReason, violations uint64) *sources.AuditRun {
		return &sources.AuditRun{ID: "1", Complete: complete, Reason: reason, Violations: violations, Time: last}
	}
	tests := map[string]struct {
		sources []exporter.SourceStatus
		want    string
	}{
		"some, of known size": {[]exporter.SourceStatus{
			{Name: "log", State: exporter.Active, Lost: 3, LostLines: 12, LostBytes: 4608},
			{Name: "other", State: exporter.Active, Lost: 1, LostLines: 1},
		}, `
SOURCE  STATE   RECORDS  RATE  LAST  LOST
log     Active  0        -     -     3
other   Active  0        -     -     1
log: lost: at least 12 lines and 4.5 KiB
other: lost: at least 1 line
`},
		"audits": {[]exporter.SourceStatus{
			{Name: "gatekeeper", State: exporter.Degraded, Reason: "/tmp/violations: permission denied", LastRun: run(false, decision.NoEnd, 1)},
			{Name: "log", State: exporter.Active, LastRun: run(true, decision.StartToEnd, 17)},
		}, `
SOURCE      STATE     RECORDS  RATE  LAST
gatekeeper  Degraded  0        -     -
log         Active    0        -     -
gatekeeper: /tmp/violations: permission denied
gatekeeper: last audit 1m30s ago: not proven complete (NoEnd), 1 violation
log: last audit 1m30s ago: complete (StartToEnd), 17 violations
`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			if err := writeStatus(&b, exporter.Status{Sources: tt.sources}, now); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(b.String(), "\n"+tt.want+"\n") {
				t.Errorf("got\n%s\nwant in it\n%s", b.String(), tt.want)
			}
		})
	}
}

// The queue says how fast it fills, and when it is full; the listener for metrics speaks up
// when it is not served.
func TestWriteStatusOfTheQueue(t *testing.T) {
	full := 12600.0
	var b strings.Builder
	err := writeStatus(&b, exporter.Status{
		Queue:   exporter.QueueStatus{FirstSeq: 1, LastSeq: 1000, Bytes: 1 << 30, MaxBytes: 2 << 30, State: exporter.Active, RecordsPerSecond: 55.4, FullInSeconds: &full},
		Metrics: &exporter.MetricsStatus{State: exporter.Error, Reason: "address in use"},
	}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\nqueue   Active: 1 GiB of 2 GiB, records 1 to 1000 kept, 55/s, full in 3h30m at\n        this rate\n",
		"\nmetrics Error: address in use\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("got\n%s\nwant in it\n%s", b.String(), want)
		}
	}
}
