package pods

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/docket-export/docket/decision"
)

// audited waits for the end of an audit that was complete, with no more permissions than the manifests give, and has found the
// ConfigMap that Kubernetes puts into each namespace.
func (i *installation) audited(t *testing.T) {
	var last decision.Run
	i.Await("a complete audit", func() error {
		for _, line := range i.siem.Lines() {
			var run decision.Run
			if err := json.Unmarshal([]byte(line), &run); err != nil {
				return err
			}
			if run.EventType != decision.AuditRun {
				continue
			}
			if last = run; run.Complete && run.Violations > 0 {
				return nil
			}
		}
		return fmt.Errorf("the last audit: %+v", last)
	})
	t.Logf("an audit found %d violations: %s", last.Violations, last.Reason)
}
