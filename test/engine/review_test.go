package engine

import (
	"slices"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
)

// BenchmarkReview asks Gatekeeper, and a docket-webhook whose records a docket keeps, about every request of
// testdata, one after the other. benchstat -col /program compares them.
//
//	go test -run '^$' -bench Review -benchtime 10x ./engine
func BenchmarkReview(b *testing.B) {
	s := startSite(b)
	s.gatekeeper.Audit.Kill() // it would take its share of the processors
	e := startEngine(b, "--policy-dir", policyDirectory(b))
	var reviews []*admissionv1.AdmissionReview
	for _, r := range requests(b) {
		reviews = append(reviews, r.review(b, "review"))
	}
	for _, program := range []struct {
		name    string
		webhook *webhook
	}{{"gatekeeper", s.webhook}, {"docket", e.webhook}} {
		b.Run("program="+program.name, func(b *testing.B) {
			var waits []time.Duration
			for b.Loop() {
				for _, r := range reviews {
					began := time.Now()
					if _, _, err := program.webhook.ask(r); err != nil {
						b.Fatal(err)
					}
					waits = append(waits, time.Since(began))
				}
			}
			slices.Sort(waits)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(waits[len(waits)/2].Microseconds()), "us-p50")
			b.ReportMetric(float64(waits[len(waits)*99/100].Microseconds()), "us-p99")
		})
	}
}
