package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/webhook/engine/admission"
	"github.com/docket-export/docket/webhook/engine/audit"
	"github.com/docket-export/docket/webhook/engine/directory"
	"github.com/docket-export/docket/webhook/engine/policy"
)

// state is a policy.State in JSON.
type state struct {
	Kind     string       `json:"kind"`
	Name     string       `json:"name"`
	Phase    policy.Phase `json:"phase"`
	Reason   string       `json:"reason,omitempty"`
	Message  string       `json:"message,omitempty"`
	Observed int64        `json:"observedGeneration"`
	Enforced int64        `json:"enforcedGeneration"`
	Since    time.Time    `json:"since"`
}

// states is what /states answers.
type states struct {
	Policies []state             `json:"policies"`
	Files    []directory.Problem `json:"files,omitempty"` // mistakes in files of --policy-dir
}

func (e *engine) states() states {
	all := states{Policies: []state{}, Files: e.problems()}
	for _, s := range e.set.States() {
		all.Policies = append(all.Policies, state{s.Kind, s.Name, s.Phase, s.Reason, s.Message, s.Observed, s.Enforced, s.Since})
	}
	return all
}

func (e *engine) healthHandler(ready, live func(*http.Request) error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", probe(live))
	mux.HandleFunc("GET /healthz", probe(live)) // Gatekeeper's name
	mux.HandleFunc("GET /readyz", probe(ready))
	mux.HandleFunc("GET /states", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		out := json.NewEncoder(w)
		out.SetIndent("", "  ")
		_ = out.Encode(e.states()) // who asks may go
	})
	return mux
}

// probe answers with what check says.
func probe(check func(*http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := check(r); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	}
}

// metrics are those of /metrics. No label has text of a request in it.
type metrics struct {
	registry *prometheus.Registry
	reviews  *prometheus.HistogramVec
	audits   *prometheus.GaugeVec
}

func newMetrics(e *engine) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		reviews: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "docket_webhook_review_duration_seconds", Help: "Time that reviews took, by what was decided.",
			Buckets: prometheus.ExponentialBuckets(0.25e-3, 2, 16), // 0.25 ms to 8 s
		}, []string{"decision"}),
		audits: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "docket_webhook_audit_last", Help: "The last audit: whether it was complete (1), the objects and violations that it found, and its end in Unix time.",
		}, []string{"value"}),
	}
	for _, d := range []decision.Decision{decision.Allow, decision.Deny, decision.Error} {
		m.reviews.WithLabelValues(string(d))
	}
	m.registry.MustRegister(m.reviews, m.audits, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, phase := range []policy.Phase{policy.Active, policy.Degraded, policy.Error} {
		m.gauge("docket_webhook_policies", "Templates and constraints, by their state.", prometheus.Labels{"phase": string(phase)}, func() (n int) {
			for _, s := range e.set.States() {
				if s.Phase == phase {
					n++
				}
			}
			return n
		})
	}
	m.gauge("docket_webhook_file_mistakes", "Mistakes in files of --policy-dir.", nil, func() int { return len(e.problems()) })
	count := func(name, help string, labels prometheus.Labels, value func(client.Stats) uint64) {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels},
			func() float64 { return float64(value(e.client.Stats())) }))
	}
	count("docket_webhook_records_total", "Records made.", nil, func(s client.Stats) uint64 { return s.Logged })
	count("docket_webhook_records_stored_total", "Records that are on the disk of docket.", nil, func(s client.Stats) uint64 { return s.Stored })
	count("docket_webhook_records_refused_total", "Records that docket has refused.", nil, func(s client.Stats) uint64 { return s.Refused })
	for _, d := range []decision.Decision{decision.Deny, decision.Warn, decision.DryRun, decision.Error} {
		count("docket_webhook_records_lost_total", "Records for which there was no room.", prometheus.Labels{"decision": string(d)},
			func(s client.Stats) uint64 { return s.Lost[d] })
	}
	m.gauge("docket_webhook_records_buffered", "Records that docket has not acknowledged yet.", nil, func() int { return e.client.Stats().Buffered })
	return m
}

func (m *metrics) gauge(name, help string, labels prometheus.Labels, value func() int) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels},
		func() float64 { return float64(value()) }))
}

func (m *metrics) reviewed(a admission.Answer) {
	m.reviews.WithLabelValues(string(a.Decision)).Observe(a.Duration.Seconds())
}

func (m *metrics) audited(r audit.Report, _ error) {
	complete := 0.0
	if r.Complete {
		complete = 1
	}
	for name, value := range map[string]float64{"complete": complete, "objects": float64(r.Objects), "violations": float64(*r.Reported), "end": float64(time.Now().Unix())} {
		m.audits.WithLabelValues(name).Set(value)
	}
}

func (m *metrics) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	return mux
}
