// Package producertest is the conformance suite of producers as a Go test: what
// the exporter may do to a producer, and what it relies on. The test of a new
// producer is a call of Run.
package producertest

import (
	"testing"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/client/clienttest/conformance"
)

// Run tries p in every scenario there is, each in a test of its own. A producer
// that is still at work shortly before the deadline of go test has failed. See
// conformance.Producer for what p must do.
func Run(t *testing.T, p conformance.Producer) {
	t.Helper()
	for _, s := range conformance.Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			r, err := conformance.Suite{Timeout: await.Left(t)}.Try(t.Context(), s, p)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range r.Faults {
				t.Errorf("%s: %s", s.About, f)
			}
		})
	}
}
