package exporter

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/sources"
)

// idle returns an exporter that nothing runs, with a session for plain lines.
func idle(t *testing.T) (*Exporter, sources.Session) {
	t.Helper()
	return idleWith(t, &Config{}, "test")
}

// idleWith is idle with the sources and sinks of cfg. The lines are of source.
func idleWith(t *testing.T, cfg *Config, source string) (*Exporter, sources.Session) {
	t.Helper()
	cfg.Queue = QueueConfig{Directory: t.TempDir(), MaxBytes: 16 << 20, WhenFull: Block}
	cfg.Limits = defaultLimits()
	e, err := New(cfg, Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.queue.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	s, _, err := intake{ingest: e.ingest}.Open(t.Context(), sources.Opening{Source: source})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return e, s
}

// The metrics of one scrape are of one moment: what arrives while they are collected
// is in all of them or in none.
func TestScrapeIsOneView(t *testing.T) {
	e, s := idle(t)
	submit(t, s, "{}\n{}\nno object\n")
	metrics := make(chan prometheus.Metric)
	go func() {
		defer close(metrics)
		statusCollector{e}.Collect(metrics)
	}()
	got := map[string]float64{}
	for m := range metrics {
		var value dto.Metric
		if err := m.Write(&value); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"received", "refused", "stored"} {
			if strings.Contains(m.Desc().String(), `"docket_records_`+name+`_total"`) {
				got[name] += value.GetCounter().GetValue()
			}
		}
		submit(t, s, "{}\n")
	}
	if got["received"] != 3 || got["stored"] != 2 || got["refused"] != 1 {
		t.Errorf("got %v, want 3 received, 2 stored, 1 refused", got)
	}
}

// The books can fail: a line that was read and got no fate leaves received larger than
// the rest, in /status and in the metrics.
func TestLostLineShowsInTheLedger(t *testing.T) {
	e, s := idle(t)
	submit(t, s, "{}\n\n \n{}\nno object\n")
	if l := e.Status().Ledger; l.Received != 3 || l.Stored != 2 || l.Refused["InvalidJSON"] != 1 {
		t.Errorf("got ledger %+v, want 3 received, 2 stored, 1 refused", l)
	}
	durable := make(chan struct{})
	lossy := queue.Chunk{Source: "test", Records: []byte("{}\n"), Count: 1, Lines: 2}
	if err := e.queue.Append(t.Context(), &lossy, func() { close(durable) }); err != nil {
		t.Fatal(err)
	}
	<-durable
	if l := e.Status().Ledger; l.Received != 5 || l.Stored != 3 {
		t.Errorf("got %d received and %d stored, want 5 and 3", l.Received, l.Stored)
	}
}
