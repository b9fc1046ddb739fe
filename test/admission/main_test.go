// Package admission tests docket in the admission path of a real API server: docket tap
// in front of an unmodified Gatekeeper, and of Open Policy Agent.
//
// What admission has decided is known independently of docket: the API server's own
// audit log has each denial and each call of a webhook that failed. It has no warnings;
// those are known from the answers of the API server to its clients.
//
//	verdict_test.go   verdicts, and the comparison of those that were given with those exported
//	auditlog_test.go  verdicts that the audit log tells of
//	export_test.go    verdicts and losses that the export tells of
//	load_test.go      requests, and what the API server answered
//	service_test.go   the Service in front of Gatekeeper, as kube-proxy would have it
//	tap_test.go       processes of docket tap, and their certificates
package admission

import (
	"os"
	"testing"
	"time"

	"github.com/docket-export/docket/test/dockettest"
	"github.com/docket-export/docket/test/internal/poll"
)

func TestMain(m *testing.M) { os.Exit(dockettest.Main(m)) }

// awaitTimeout bounds what takes seconds at most, on a machine that is busy with more.
const awaitTimeout = 5 * time.Minute

// await asks until ok returns nil.
func await(t *testing.T, what string, ok func() error) {
	t.Helper()
	if err := poll.Until(awaitTimeout, ok); err != nil {
		t.Fatalf("wait for %s: %v", what, err)
	}
}
