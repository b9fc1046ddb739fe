package admission

import "testing"

// The oracle itself is right: of requests that Gatekeeper decides directly the audit log
// tells of each denial that a client has seen, and of no other, and every outcome is that
// of its kind.
func TestDirect(t *testing.T) {
	s := startSite(t)
	s.Kubectl("create", "namespace", "direct")
	l := startLoad(t, s.Cluster, s.client, "direct")
	l.awaitMore(t, 500)
	answers := l.stop()
	if n := checkOutcomes(t, answers); n != 0 {
		t.Errorf("Gatekeeper has failed %d times", n)
	}
	seen := make(tally)
	for _, a := range answers {
		if v := a.verdict(); v.decision != allowed {
			seen[v]++
		}
	}
	if err := compare(seen, s.verdicts(t, answers)).problem(nil); err != nil {
		t.Error(err)
	}
}
