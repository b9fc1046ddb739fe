package exporter

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/sinktest"
	"github.com/docket-export/docket/sources"
)

// auditSource reads an audit. It is its own configuration.
type auditSource struct {
	sources.Config
	audits *sources.AuditLog
}

func (s auditSource) New(sources.Env) sources.Source { return s }
func (auditSource) Connections() int                 { return 0 }
func (s auditSource) Report() sources.Report {
	return sources.Report{PassedOver: sources.PassedOver("NoObject", 1), Audits: s.audits.Seen()}
}
func (auditSource) Run(ctx context.Context, _ sources.Intake, ready func()) error {
	ready()
	<-ctx.Done()
	return nil
}

// newObserved returns an exporter that nothing runs, whose metrics all have a series.
func newObserved(t *testing.T) *Exporter {
	t.Helper()
	source := auditSource{audits: new(sources.AuditLog)}
	e, s := idleWith(t, &Config{
		Sources: []SourceConfig{{Name: "audit", Config: source}},
		Sinks: []SinkConfig{
			{Name: "bus", Batch: sinks.DefaultBatch(), Retry: defaultRetry(), From: Oldest, Config: stuckSink{}},
			{Name: "topic", Batch: sinks.DefaultBatch(), Retry: defaultRetry(), From: Oldest, Config: &sinktest.TopicConfig{Topic: &sinktest.Topic{}}},
		},
	}, "audit")
	submit(t, s, "{}\nno object\n"+`{"eventType":"docket.loss","reason":"full","lost":{"deny":3}}`+"\n")
	source.audits.Add(decision.Run{ID: "1", Complete: true, Reason: decision.StartToEnd})
	source.audits.Add(decision.Run{ID: "2", Reason: decision.NoEnd, Violations: 7})
	e.metrics.producerGap("audit", 1)
	e.metrics.transactionsOf("topic").Committed(2)
	bus := e.metrics.delivery("bus")
	bus.failed(sinks.Transient)
	bus.rejected("400")
	return e
}

// series returns what a scrape has, by name, as "type{labels}", without the metrics of the
// runtime and of the process.
func series(t *testing.T, e *Exporter) map[string]string {
	t.Helper()
	families, err := e.metrics.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "docket_") {
			continue
		}
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		found[f.GetName()] = strings.ToLower(f.GetType().String()) + "{" + strings.Join(labels, ",") + "}"
	}
	return found
}

// What Metrics lists, which docs/metrics.md is made of, is what a scrape has.
func TestMetricsAreListed(t *testing.T) {
	e := newObserved(t)
	want := map[string]string{}
	for _, m := range Metrics() {
		want[m.Name] = m.Type + "{" + strings.Join(slices.Sorted(slices.Values(m.Labels)), ",") + "}"
		if m.Help == "" || !strings.HasSuffix(m.Help, ".") {
			t.Errorf("%s: got the help %q, want a sentence", m.Name, m.Help)
		}
	}
	if got := series(t, e); !maps.Equal(got, want) {
		for name := range got {
			if got[name] != want[name] {
				t.Errorf("%s: got %s in a scrape, want %q as listed", name, got[name], want[name])
			}
		}
		for name := range want {
			if got[name] == "" {
				t.Errorf("%s: is listed, and not in a scrape", name)
			}
		}
	}
	pedantic := prometheus.NewPedanticRegistry()
	pedantic.MustRegister(statusCollector{e})
	if _, err := pedantic.Gather(); err != nil {
		t.Error(err)
	}
}

// What sources and the configuration say is in the metrics and in /status alike.
func TestMetricsOfSourcesAndConfiguration(t *testing.T) {
	e := newObserved(t)
	e.loads.Failed("line 3: bad")
	source := e.Status().Sources[0]
	if run := source.LastRun; run == nil || run.ID != "2" || run.Complete || run.Reason != decision.NoEnd || run.Violations != 7 || run.Time.IsZero() {
		t.Errorf("got the last run %+v, want the second", run)
	}
	if source.Records != 3 || source.LastRecord == nil || source.RecordsPerSecond != 3 {
		t.Errorf("got %+v, want 3 records, 3 a second, and the time of the last", source)
	}
	got := values(t, e)
	for name, want := range map[string]float64{
		"docket_audit_runs_total Complete audit":            1,
		"docket_audit_runs_total Incomplete audit":          1,
		"docket_audit_last_run_complete audit":              0,
		"docket_audit_last_run_timestamp_seconds audit":     seconds(source.LastRun.Time),
		"docket_source_records_stored_total audit":          2,
		"docket_source_last_record_timestamp_seconds audit": seconds(*source.LastRecord),
		"docket_source_state audit Degraded":                1, // nothing runs it
		"docket_source_state audit Active":                  0,
		"docket_config_reload_total Applied":                0,
		"docket_config_reload_total Failed":                 1,
		"docket_config_state Error":                         1,
		"docket_config_state Active":                        0,
		"docket_config_generation":                          1,
		"docket_config_reload_success_timestamp_seconds":    seconds(e.Status().Config.Loaded),
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s: got %v, %t, want %v", name, v, ok, want)
		}
	}
}

// values returns the values of a scrape, by name and values of labels in the order of
// their names.
func values(t *testing.T, e *Exporter) map[string]float64 {
	t.Helper()
	families, err := e.metrics.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			found[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return found
}

// What peers say makes no series without bound.
func TestPeersMakeNoSeries(t *testing.T) {
	e := newObserved(t)
	before := len(values(t, e))
	s, _, err := intake{ingest: e.ingest}.Open(t.Context(), sources.Opening{Source: "audit"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	bus := e.metrics.delivery("bus")
	for i := range 200 {
		name := string(rune('a'+i%26)) + strings.Repeat("x", i/26)
		submit(t, s, `{"eventType":"docket.loss","reason":"`+name+`","lost":{"`+name+`":3}}`+"\n")
		bus.rejected(name)
	}
	if grown := len(values(t, e)) - before; grown > maxLabels+2 {
		t.Errorf("got %d more series, want no more than the %d codes of a destination, the rest of them, and losses of another name", grown, maxLabels)
	}
}

// How long records were under way is counted, unless they come late by an operator's wish.
func TestDelays(t *testing.T) {
	m := newMetrics("x")
	var items []sinks.Item
	for _, late := range []sinks.Late{sinks.OnTime, sinks.OnTime, sinks.Replayed, sinks.Redriven} {
		items = append(items, sinks.Item{Received: time.Now().Add(-time.Hour), Late: late})
	}
	m.delivery("bus").accepted(append(items, sinks.Item{Received: time.Now().Add(time.Hour)})) // the clock was set back
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "docket_delivery_delay_seconds" {
			h := f.GetMetric()[0].GetHistogram()
			if n, sum := h.GetSampleCount(), h.GetSampleSum(); n != 3 || sum < 7200 || h.GetBucket()[0].GetCumulativeCount() != 1 {
				t.Errorf("got %d records and %v seconds, want 2 of an hour and 1 of nothing", n, sum)
			}
		}
	}
}
